BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('v3.2.0.a');
CREATE TABLE studies (
	study_id INTEGER NOT NULL, 
	study_name VARCHAR(512) NOT NULL, 
	PRIMARY KEY (study_id)
);
INSERT INTO "studies" VALUES(1,'tiny/width=16');
INSERT INTO "studies" VALUES(2,'tiny/width=32');
INSERT INTO "studies" VALUES(3,'tiny/width=64');
INSERT INTO "studies" VALUES(4,'tiny/width=128');
CREATE TABLE study_directions (
	study_direction_id INTEGER NOT NULL, 
	direction VARCHAR(8) NOT NULL, 
	study_id INTEGER NOT NULL, 
	objective INTEGER NOT NULL, 
	PRIMARY KEY (study_direction_id), 
	UNIQUE (study_id, objective), 
	FOREIGN KEY(study_id) REFERENCES studies (study_id)
);
INSERT INTO "study_directions" VALUES(1,'MINIMIZE',1,0);
INSERT INTO "study_directions" VALUES(2,'MINIMIZE',2,0);
INSERT INTO "study_directions" VALUES(3,'MINIMIZE',3,0);
INSERT INTO "study_directions" VALUES(4,'MINIMIZE',4,0);
CREATE TABLE study_system_attributes (
	study_system_attribute_id INTEGER NOT NULL, 
	study_id INTEGER, 
	"key" VARCHAR(512), 
	value_json TEXT, 
	PRIMARY KEY (study_system_attribute_id), 
	UNIQUE (study_id, "key"), 
	FOREIGN KEY(study_id) REFERENCES studies (study_id)
);
CREATE TABLE study_user_attributes (
	study_user_attribute_id INTEGER NOT NULL, 
	study_id INTEGER, 
	"key" VARCHAR(512), 
	value_json TEXT, 
	PRIMARY KEY (study_user_attribute_id), 
	UNIQUE (study_id, "key"), 
	FOREIGN KEY(study_id) REFERENCES studies (study_id)
);
INSERT INTO "study_user_attributes" VALUES(1,1,'schema','2');
INSERT INTO "study_user_attributes" VALUES(2,1,'fingerprint','{"schema_version": 2, "sampler": "grid", "workload.name": "own", "tune.lr.low": 0.00390625, "tune.lr.high": 0.125, "tune.lr.n": 6, "data.trainer": "train"}');
INSERT INTO "study_user_attributes" VALUES(3,1,'worker:0123456789ab','{"beat": 2, "at": "2026-11-22T17:36:07+00:00", "grace_s": 60.0, "host": "somewhere", "pid": 21892, "created": 1795368961.95, "start": 184795, "boot": "00000000-0000-4000-8000-000000000000", "space": "pid:[4026531836]", "left": true}');
INSERT INTO "study_user_attributes" VALUES(4,2,'schema','2');
INSERT INTO "study_user_attributes" VALUES(5,2,'fingerprint','{"schema_version": 2, "sampler": "grid", "workload.name": "own", "tune.lr.low": 0.00390625, "tune.lr.high": 0.125, "tune.lr.n": 6, "data.trainer": "train"}');
INSERT INTO "study_user_attributes" VALUES(6,3,'schema','2');
INSERT INTO "study_user_attributes" VALUES(7,3,'fingerprint','{"schema_version": 2, "sampler": "grid", "workload.name": "own", "tune.lr.low": 0.00390625, "tune.lr.high": 0.125, "tune.lr.n": 6, "data.trainer": "train"}');
INSERT INTO "study_user_attributes" VALUES(8,4,'schema','2');
INSERT INTO "study_user_attributes" VALUES(9,4,'fingerprint','{"schema_version": 2, "sampler": "grid", "workload.name": "own", "tune.lr.low": 0.00390625, "tune.lr.high": 0.125, "tune.lr.n": 6, "data.trainer": "train"}');
INSERT INTO "study_user_attributes" VALUES(10,4,'driver','{"host": "somewhere", "pid": 21892, "since": "2026-11-22T17:36:00+00:00", "at": "2026-11-22T17:36:07+00:00", "left": true, "executor": "LocalExecutor", "workers": 1, "study": "tiny", "sweeps": ["tiny"], "status": {"done": false, "sizes": [{"study": "tiny", "stage": "tune", "size": {"width": 16.0}, "cells": 12, "complete": 12, "running": 0, "waiting": 0, "failed": 0, "diverged": 2, "duplicates": 0}, {"study": "tiny", "stage": "tune", "size": {"width": 32.0}, "cells": 12, "complete": 12, "running": 0, "waiting": 0, "failed": 0, "diverged": 2, "duplicates": 0}, {"study": "tiny", "stage": "tune", "size": {"width": 64.0}, "cells": 12, "complete": 12, "running": 0, "waiting": 0, "failed": 0, "diverged": 2, "duplicates": 0}, {"study": "tiny", "stage": "tune", "size": {"width": 128.0}, "cells": 12, "complete": 12, "running": 0, "waiting": 0, "failed": 0, "diverged": 2, "duplicates": 0}, {"study": "tiny", "stage": "check", "size": {"width": 512.0}, "cells": 4, "complete": 0, "running": 0, "waiting": 4, "failed": 0, "diverged": 0, "duplicates": 0}], "eta_s": 4.350120073309213e-05, "wall_s": 0.000653569001087817, "flops": 0.0, "notes": []}}');
CREATE TABLE trial_heartbeats (
	trial_heartbeat_id INTEGER NOT NULL, 
	trial_id INTEGER NOT NULL, 
	heartbeat DATETIME NOT NULL, 
	PRIMARY KEY (trial_heartbeat_id), 
	UNIQUE (trial_id), 
	FOREIGN KEY(trial_id) REFERENCES trials (trial_id)
);
CREATE TABLE trial_intermediate_values (
	trial_intermediate_value_id INTEGER NOT NULL, 
	trial_id INTEGER NOT NULL, 
	step INTEGER NOT NULL, 
	intermediate_value FLOAT, 
	intermediate_value_type VARCHAR(7) NOT NULL, 
	PRIMARY KEY (trial_intermediate_value_id), 
	UNIQUE (trial_id, step), 
	FOREIGN KEY(trial_id) REFERENCES trials (trial_id)
);
CREATE TABLE trial_params (
	param_id INTEGER NOT NULL, 
	trial_id INTEGER, 
	param_name VARCHAR(512), 
	param_value FLOAT, 
	distribution_json TEXT, 
	PRIMARY KEY (param_id), 
	UNIQUE (trial_id, param_name), 
	FOREIGN KEY(trial_id) REFERENCES trials (trial_id)
);
INSERT INTO "trial_params" VALUES(1,1,'lr',0.00390625,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.00390625, "high": 0.125, "log": true}}');
INSERT INTO "trial_params" VALUES(2,2,'lr',0.00390625,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.00390625, "high": 0.125, "log": true}}');
INSERT INTO "trial_params" VALUES(3,3,'lr',0.0078125,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.00390625, "high": 0.125, "log": true}}');
INSERT INTO "trial_params" VALUES(4,4,'lr',0.0078125,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.00390625, "high": 0.125, "log": true}}');
INSERT INTO "trial_params" VALUES(5,5,'lr',0.015625,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.00390625, "high": 0.125, "log": true}}');
INSERT INTO "trial_params" VALUES(6,6,'lr',0.015625,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.00390625, "high": 0.125, "log": true}}');
INSERT INTO "trial_params" VALUES(7,7,'lr',0.03125,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.00390625, "high": 0.125, "log": true}}');
INSERT INTO "trial_params" VALUES(8,8,'lr',0.03125,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.00390625, "high": 0.125, "log": true}}');
INSERT INTO "trial_params" VALUES(9,9,'lr',0.0625,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.00390625, "high": 0.125, "log": true}}');
INSERT INTO "trial_params" VALUES(10,10,'lr',0.0625,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.00390625, "high": 0.125, "log": true}}');
INSERT INTO "trial_params" VALUES(11,11,'lr',0.125,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.00390625, "high": 0.125, "log": true}}');
INSERT INTO "trial_params" VALUES(12,12,'lr',0.125,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.00390625, "high": 0.125, "log": true}}');
INSERT INTO "trial_params" VALUES(13,13,'lr',0.00390625,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.00390625, "high": 0.125, "log": true}}');
INSERT INTO "trial_params" VALUES(14,14,'lr',0.00390625,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.00390625, "high": 0.125, "log": true}}');
INSERT INTO "trial_params" VALUES(15,15,'lr',0.0078125,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.00390625, "high": 0.125, "log": true}}');
INSERT INTO "trial_params" VALUES(16,16,'lr',0.0078125,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.00390625, "high": 0.125, "log": true}}');
INSERT INTO "trial_params" VALUES(17,17,'lr',0.015625,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.00390625, "high": 0.125, "log": true}}');
INSERT INTO "trial_params" VALUES(18,18,'lr',0.015625,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.00390625, "high": 0.125, "log": true}}');
INSERT INTO "trial_params" VALUES(19,19,'lr',0.03125,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.00390625, "high": 0.125, "log": true}}');
INSERT INTO "trial_params" VALUES(20,20,'lr',0.03125,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.00390625, "high": 0.125, "log": true}}');
INSERT INTO "trial_params" VALUES(21,21,'lr',0.0625,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.00390625, "high": 0.125, "log": true}}');
INSERT INTO "trial_params" VALUES(22,22,'lr',0.0625,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.00390625, "high": 0.125, "log": true}}');
INSERT INTO "trial_params" VALUES(23,23,'lr',0.125,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.00390625, "high": 0.125, "log": true}}');
INSERT INTO "trial_params" VALUES(24,24,'lr',0.125,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.00390625, "high": 0.125, "log": true}}');
INSERT INTO "trial_params" VALUES(25,25,'lr',0.00390625,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.00390625, "high": 0.125, "log": true}}');
INSERT INTO "trial_params" VALUES(26,26,'lr',0.00390625,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.00390625, "high": 0.125, "log": true}}');
INSERT INTO "trial_params" VALUES(27,27,'lr',0.0078125,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.00390625, "high": 0.125, "log": true}}');
INSERT INTO "trial_params" VALUES(28,28,'lr',0.0078125,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.00390625, "high": 0.125, "log": true}}');
INSERT INTO "trial_params" VALUES(29,29,'lr',0.015625,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.00390625, "high": 0.125, "log": true}}');
INSERT INTO "trial_params" VALUES(30,30,'lr',0.015625,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.00390625, "high": 0.125, "log": true}}');
INSERT INTO "trial_params" VALUES(31,31,'lr',0.03125,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.00390625, "high": 0.125, "log": true}}');
INSERT INTO "trial_params" VALUES(32,32,'lr',0.03125,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.00390625, "high": 0.125, "log": true}}');
INSERT INTO "trial_params" VALUES(33,33,'lr',0.0625,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.00390625, "high": 0.125, "log": true}}');
INSERT INTO "trial_params" VALUES(34,34,'lr',0.0625,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.00390625, "high": 0.125, "log": true}}');
INSERT INTO "trial_params" VALUES(35,35,'lr',0.125,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.00390625, "high": 0.125, "log": true}}');
INSERT INTO "trial_params" VALUES(36,36,'lr',0.125,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.00390625, "high": 0.125, "log": true}}');
INSERT INTO "trial_params" VALUES(37,37,'lr',0.00390625,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.00390625, "high": 0.125, "log": true}}');
INSERT INTO "trial_params" VALUES(38,38,'lr',0.00390625,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.00390625, "high": 0.125, "log": true}}');
INSERT INTO "trial_params" VALUES(39,39,'lr',0.0078125,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.00390625, "high": 0.125, "log": true}}');
INSERT INTO "trial_params" VALUES(40,40,'lr',0.0078125,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.00390625, "high": 0.125, "log": true}}');
INSERT INTO "trial_params" VALUES(41,41,'lr',0.015625,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.00390625, "high": 0.125, "log": true}}');
INSERT INTO "trial_params" VALUES(42,42,'lr',0.015625,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.00390625, "high": 0.125, "log": true}}');
INSERT INTO "trial_params" VALUES(43,43,'lr',0.03125,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.00390625, "high": 0.125, "log": true}}');
INSERT INTO "trial_params" VALUES(44,44,'lr',0.03125,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.00390625, "high": 0.125, "log": true}}');
INSERT INTO "trial_params" VALUES(45,45,'lr',0.0625,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.00390625, "high": 0.125, "log": true}}');
INSERT INTO "trial_params" VALUES(46,46,'lr',0.0625,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.00390625, "high": 0.125, "log": true}}');
INSERT INTO "trial_params" VALUES(47,47,'lr',0.125,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.00390625, "high": 0.125, "log": true}}');
INSERT INTO "trial_params" VALUES(48,48,'lr',0.125,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.00390625, "high": 0.125, "log": true}}');
CREATE TABLE trial_system_attributes (
	trial_system_attribute_id INTEGER NOT NULL, 
	trial_id INTEGER, 
	"key" VARCHAR(512), 
	value_json TEXT, 
	PRIMARY KEY (trial_system_attribute_id), 
	UNIQUE (trial_id, "key"), 
	FOREIGN KEY(trial_id) REFERENCES trials (trial_id)
);
CREATE TABLE trial_user_attributes (
	trial_user_attribute_id INTEGER NOT NULL, 
	trial_id INTEGER, 
	"key" VARCHAR(512), 
	value_json TEXT, 
	PRIMARY KEY (trial_user_attribute_id), 
	UNIQUE (trial_id, "key"), 
	FOREIGN KEY(trial_id) REFERENCES trials (trial_id)
);
INSERT INTO "trial_user_attributes" VALUES(1,1,'seed','0');
INSERT INTO "trial_user_attributes" VALUES(2,1,'conditions','{"workload": "own"}');
INSERT INTO "trial_user_attributes" VALUES(3,1,'owner','{"host": "somewhere", "pid": 21892, "created": 1795368961.95, "start": 184795, "boot": "00000000-0000-4000-8000-000000000000", "space": "pid:[4026531836]", "worker": "0123456789ab"}');
INSERT INTO "trial_user_attributes" VALUES(4,1,'result','{"status": "complete", "initial_loss": null, "n_params": 0, "n_params_total": 0, "n_tokens": 0, "epochs": 0.0, "flops": 0.0, "wall_s": 2.630400013003964e-05, "diverged_step": null, "updates": 0}');
INSERT INTO "trial_user_attributes" VALUES(5,2,'seed','1');
INSERT INTO "trial_user_attributes" VALUES(6,2,'conditions','{"workload": "own"}');
INSERT INTO "trial_user_attributes" VALUES(7,2,'owner','{"host": "somewhere", "pid": 21892, "created": 1795368961.95, "start": 184795, "boot": "00000000-0000-4000-8000-000000000000", "space": "pid:[4026531836]", "worker": "0123456789ab"}');
INSERT INTO "trial_user_attributes" VALUES(8,3,'seed','0');
INSERT INTO "trial_user_attributes" VALUES(9,3,'conditions','{"workload": "own"}');
INSERT INTO "trial_user_attributes" VALUES(10,3,'owner','{"host": "somewhere", "pid": 21892, "created": 1795368961.95, "start": 184795, "boot": "00000000-0000-4000-8000-000000000000", "space": "pid:[4026531836]", "worker": "0123456789ab"}');
INSERT INTO "trial_user_attributes" VALUES(11,2,'result','{"status": "complete", "initial_loss": null, "n_params": 0, "n_params_total": 0, "n_tokens": 0, "epochs": 0.0, "flops": 0.0, "wall_s": 1.529400014987914e-05, "diverged_step": null, "updates": 0}');
INSERT INTO "trial_user_attributes" VALUES(12,3,'result','{"status": "complete", "initial_loss": null, "n_params": 0, "n_params_total": 0, "n_tokens": 0, "epochs": 0.0, "flops": 0.0, "wall_s": 1.612899995961925e-05, "diverged_step": null, "updates": 0}');
INSERT INTO "trial_user_attributes" VALUES(13,4,'seed','1');
INSERT INTO "trial_user_attributes" VALUES(14,4,'conditions','{"workload": "own"}');
INSERT INTO "trial_user_attributes" VALUES(15,4,'owner','{"host": "somewhere", "pid": 21892, "created": 1795368961.95, "start": 184795, "boot": "00000000-0000-4000-8000-000000000000", "space": "pid:[4026531836]", "worker": "0123456789ab"}');
INSERT INTO "trial_user_attributes" VALUES(16,5,'seed','0');
INSERT INTO "trial_user_attributes" VALUES(17,5,'conditions','{"workload": "own"}');
INSERT INTO "trial_user_attributes" VALUES(18,5,'owner','{"host": "somewhere", "pid": 21892, "created": 1795368961.95, "start": 184795, "boot": "00000000-0000-4000-8000-000000000000", "space": "pid:[4026531836]", "worker": "0123456789ab"}');
INSERT INTO "trial_user_attributes" VALUES(19,6,'seed','1');
INSERT INTO "trial_user_attributes" VALUES(20,6,'conditions','{"workload": "own"}');
INSERT INTO "trial_user_attributes" VALUES(21,6,'owner','{"host": "somewhere", "pid": 21892, "created": 1795368961.95, "start": 184795, "boot": "00000000-0000-4000-8000-000000000000", "space": "pid:[4026531836]", "worker": "0123456789ab"}');
INSERT INTO "trial_user_attributes" VALUES(22,7,'seed','0');
INSERT INTO "trial_user_attributes" VALUES(23,7,'conditions','{"workload": "own"}');
INSERT INTO "trial_user_attributes" VALUES(24,7,'owner','{"host": "somewhere", "pid": 21892, "created": 1795368961.95, "start": 184795, "boot": "00000000-0000-4000-8000-000000000000", "space": "pid:[4026531836]", "worker": "0123456789ab"}');
INSERT INTO "trial_user_attributes" VALUES(25,4,'result','{"status": "complete", "initial_loss": null, "n_params": 0, "n_params_total": 0, "n_tokens": 0, "epochs": 0.0, "flops": 0.0, "wall_s": 1.443099995412922e-05, "diverged_step": null, "updates": 0}');
INSERT INTO "trial_user_attributes" VALUES(26,5,'result','{"status": "complete", "initial_loss": null, "n_params": 0, "n_params_total": 0, "n_tokens": 0, "epochs": 0.0, "flops": 0.0, "wall_s": 1.5641000118193915e-05, "diverged_step": null, "updates": 0}');
INSERT INTO "trial_user_attributes" VALUES(27,6,'result','{"status": "complete", "initial_loss": null, "n_params": 0, "n_params_total": 0, "n_tokens": 0, "epochs": 0.0, "flops": 0.0, "wall_s": 1.720900013424398e-05, "diverged_step": null, "updates": 0}');
INSERT INTO "trial_user_attributes" VALUES(28,7,'result','{"status": "complete", "initial_loss": null, "n_params": 0, "n_params_total": 0, "n_tokens": 0, "epochs": 0.0, "flops": 0.0, "wall_s": 1.5691000044171233e-05, "diverged_step": null, "updates": 0}');
INSERT INTO "trial_user_attributes" VALUES(29,8,'seed','1');
INSERT INTO "trial_user_attributes" VALUES(30,8,'conditions','{"workload": "own"}');
INSERT INTO "trial_user_attributes" VALUES(31,8,'owner','{"host": "somewhere", "pid": 21892, "created": 1795368961.95, "start": 184795, "boot": "00000000-0000-4000-8000-000000000000", "space": "pid:[4026531836]", "worker": "0123456789ab"}');
INSERT INTO "trial_user_attributes" VALUES(32,9,'seed','0');
INSERT INTO "trial_user_attributes" VALUES(33,9,'conditions','{"workload": "own"}');
INSERT INTO "trial_user_attributes" VALUES(34,9,'owner','{"host": "somewhere", "pid": 21892, "created": 1795368961.95, "start": 184795, "boot": "00000000-0000-4000-8000-000000000000", "space": "pid:[4026531836]", "worker": "0123456789ab"}');
INSERT INTO "trial_user_attributes" VALUES(35,10,'seed','1');
INSERT INTO "trial_user_attributes" VALUES(36,10,'conditions','{"workload": "own"}');
INSERT INTO "trial_user_attributes" VALUES(37,10,'owner','{"host": "somewhere", "pid": 21892, "created": 1795368961.95, "start": 184795, "boot": "00000000-0000-4000-8000-000000000000", "space": "pid:[4026531836]", "worker": "0123456789ab"}');
INSERT INTO "trial_user_attributes" VALUES(38,11,'seed','0');
INSERT INTO "trial_user_attributes" VALUES(39,11,'conditions','{"workload": "own"}');
INSERT INTO "trial_user_attributes" VALUES(40,11,'owner','{"host": "somewhere", "pid": 21892, "created": 1795368961.95, "start": 184795, "boot": "00000000-0000-4000-8000-000000000000", "space": "pid:[4026531836]", "worker": "0123456789ab"}');
INSERT INTO "trial_user_attributes" VALUES(41,12,'seed','1');
INSERT INTO "trial_user_attributes" VALUES(42,12,'conditions','{"workload": "own"}');
INSERT INTO "trial_user_attributes" VALUES(43,12,'owner','{"host": "somewhere", "pid": 21892, "created": 1795368961.95, "start": 184795, "boot": "00000000-0000-4000-8000-000000000000", "space": "pid:[4026531836]", "worker": "0123456789ab"}');
INSERT INTO "trial_user_attributes" VALUES(44,8,'result','{"status": "complete", "initial_loss": null, "n_params": 0, "n_params_total": 0, "n_tokens": 0, "epochs": 0.0, "flops": 0.0, "wall_s": 1.6924999954426312e-05, "diverged_step": null, "updates": 0}');
INSERT INTO "trial_user_attributes" VALUES(45,9,'result','{"status": "complete", "initial_loss": null, "n_params": 0, "n_params_total": 0, "n_tokens": 0, "epochs": 0.0, "flops": 0.0, "wall_s": 1.3233999879957992e-05, "diverged_step": null, "updates": 0}');
INSERT INTO "trial_user_attributes" VALUES(46,10,'result','{"status": "complete", "initial_loss": null, "n_params": 0, "n_params_total": 0, "n_tokens": 0, "epochs": 0.0, "flops": 0.0, "wall_s": 1.4892000081090373e-05, "diverged_step": null, "updates": 0}');
INSERT INTO "trial_user_attributes" VALUES(47,11,'result','{"status": "diverged", "initial_loss": null, "n_params": 0, "n_params_total": 0, "n_tokens": 0, "epochs": 0.0, "flops": 0.0, "wall_s": 1.6556999980821274e-05, "diverged_step": null, "updates": 0}');
INSERT INTO "trial_user_attributes" VALUES(48,12,'result','{"status": "diverged", "initial_loss": null, "n_params": 0, "n_params_total": 0, "n_tokens": 0, "epochs": 0.0, "flops": 0.0, "wall_s": 1.3634999959322158e-05, "diverged_step": null, "updates": 0}');
INSERT INTO "trial_user_attributes" VALUES(49,13,'seed','0');
INSERT INTO "trial_user_attributes" VALUES(50,13,'conditions','{"workload": "own"}');
INSERT INTO "trial_user_attributes" VALUES(51,13,'owner','{"host": "somewhere", "pid": 21892, "created": 1795368961.95, "start": 184795, "boot": "00000000-0000-4000-8000-000000000000", "space": "pid:[4026531836]", "worker": "0123456789ab"}');
INSERT INTO "trial_user_attributes" VALUES(52,13,'result','{"status": "complete", "initial_loss": null, "n_params": 0, "n_params_total": 0, "n_tokens": 0, "epochs": 0.0, "flops": 0.0, "wall_s": 1.471200016567309e-05, "diverged_step": null, "updates": 0}');
INSERT INTO "trial_user_attributes" VALUES(53,14,'seed','1');
INSERT INTO "trial_user_attributes" VALUES(54,14,'conditions','{"workload": "own"}');
INSERT INTO "trial_user_attributes" VALUES(55,14,'owner','{"host": "somewhere", "pid": 21892, "created": 1795368961.95, "start": 184795, "boot": "00000000-0000-4000-8000-000000000000", "space": "pid:[4026531836]", "worker": "0123456789ab"}');
INSERT INTO "trial_user_attributes" VALUES(56,15,'seed','0');
INSERT INTO "trial_user_attributes" VALUES(57,15,'conditions','{"workload": "own"}');
INSERT INTO "trial_user_attributes" VALUES(58,15,'owner','{"host": "somewhere", "pid": 21892, "created": 1795368961.95, "start": 184795, "boot": "00000000-0000-4000-8000-000000000000", "space": "pid:[4026531836]", "worker": "0123456789ab"}');
INSERT INTO "trial_user_attributes" VALUES(59,14,'result','{"status": "complete", "initial_loss": null, "n_params": 0, "n_params_total": 0, "n_tokens": 0, "epochs": 0.0, "flops": 0.0, "wall_s": 1.2274000027900911e-05, "diverged_step": null, "updates": 0}');
INSERT INTO "trial_user_attributes" VALUES(60,15,'result','{"status": "complete", "initial_loss": null, "n_params": 0, "n_params_total": 0, "n_tokens": 0, "epochs": 0.0, "flops": 0.0, "wall_s": 1.2643999980355147e-05, "diverged_step": null, "updates": 0}');
INSERT INTO "trial_user_attributes" VALUES(61,16,'seed','1');
INSERT INTO "trial_user_attributes" VALUES(62,16,'conditions','{"workload": "own"}');
INSERT INTO "trial_user_attributes" VALUES(63,16,'owner','{"host": "somewhere", "pid": 21892, "created": 1795368961.95, "start": 184795, "boot": "00000000-0000-4000-8000-000000000000", "space": "pid:[4026531836]", "worker": "0123456789ab"}');
INSERT INTO "trial_user_attributes" VALUES(64,17,'seed','0');
INSERT INTO "trial_user_attributes" VALUES(65,17,'conditions','{"workload": "own"}');
INSERT INTO "trial_user_attributes" VALUES(66,17,'owner','{"host": "somewhere", "pid": 21892, "created": 1795368961.95, "start": 184795, "boot": "00000000-0000-4000-8000-000000000000", "space": "pid:[4026531836]", "worker": "0123456789ab"}');
INSERT INTO "trial_user_attributes" VALUES(67,18,'seed','1');
INSERT INTO "trial_user_attributes" VALUES(68,18,'conditions','{"workload": "own"}');
INSERT INTO "trial_user_attributes" VALUES(69,18,'owner','{"host": "somewhere", "pid": 21892, "created": 1795368961.95, "start": 184795, "boot": "00000000-0000-4000-8000-000000000000", "space": "pid:[4026531836]", "worker": "0123456789ab"}');
INSERT INTO "trial_user_attributes" VALUES(70,19,'seed','0');
INSERT INTO "trial_user_attributes" VALUES(71,19,'conditions','{"workload": "own"}');
INSERT INTO "trial_user_attributes" VALUES(72,19,'owner','{"host": "somewhere", "pid": 21892, "created": 1795368961.95, "start": 184795, "boot": "00000000-0000-4000-8000-000000000000", "space": "pid:[4026531836]", "worker": "0123456789ab"}');
INSERT INTO "trial_user_attributes" VALUES(73,16,'result','{"status": "complete", "initial_loss": null, "n_params": 0, "n_params_total": 0, "n_tokens": 0, "epochs": 0.0, "flops": 0.0, "wall_s": 1.2375999858704745e-05, "diverged_step": null, "updates": 0}');
INSERT INTO "trial_user_attributes" VALUES(74,17,'result','{"status": "complete", "initial_loss": null, "n_params": 0, "n_params_total": 0, "n_tokens": 0, "epochs": 0.0, "flops": 0.0, "wall_s": 1.1278000101810903e-05, "diverged_step": null, "updates": 0}');
INSERT INTO "trial_user_attributes" VALUES(75,18,'result','{"status": "complete", "initial_loss": null, "n_params": 0, "n_params_total": 0, "n_tokens": 0, "epochs": 0.0, "flops": 0.0, "wall_s": 1.0298000006514485e-05, "diverged_step": null, "updates": 0}');
INSERT INTO "trial_user_attributes" VALUES(76,19,'result','{"status": "complete", "initial_loss": null, "n_params": 0, "n_params_total": 0, "n_tokens": 0, "epochs": 0.0, "flops": 0.0, "wall_s": 1.0454000175741385e-05, "diverged_step": null, "updates": 0}');
INSERT INTO "trial_user_attributes" VALUES(77,20,'seed','1');
INSERT INTO "trial_user_attributes" VALUES(78,20,'conditions','{"workload": "own"}');
INSERT INTO "trial_user_attributes" VALUES(79,20,'owner','{"host": "somewhere", "pid": 21892, "created": 1795368961.95, "start": 184795, "boot": "00000000-0000-4000-8000-000000000000", "space": "pid:[4026531836]", "worker": "0123456789ab"}');
INSERT INTO "trial_user_attributes" VALUES(80,21,'seed','0');
INSERT INTO "trial_user_attributes" VALUES(81,21,'conditions','{"workload": "own"}');
INSERT INTO "trial_user_attributes" VALUES(82,21,'owner','{"host": "somewhere", "pid": 21892, "created": 1795368961.95, "start": 184795, "boot": "00000000-0000-4000-8000-000000000000", "space": "pid:[4026531836]", "worker": "0123456789ab"}');
INSERT INTO "trial_user_attributes" VALUES(83,22,'seed','1');
INSERT INTO "trial_user_attributes" VALUES(84,22,'conditions','{"workload": "own"}');
INSERT INTO "trial_user_attributes" VALUES(85,22,'owner','{"host": "somewhere", "pid": 21892, "created": 1795368961.95, "start": 184795, "boot": "00000000-0000-4000-8000-000000000000", "space": "pid:[4026531836]", "worker": "0123456789ab"}');
INSERT INTO "trial_user_attributes" VALUES(86,23,'seed','0');
INSERT INTO "trial_user_attributes" VALUES(87,23,'conditions','{"workload": "own"}');
INSERT INTO "trial_user_attributes" VALUES(88,23,'owner','{"host": "somewhere", "pid": 21892, "created": 1795368961.95, "start": 184795, "boot": "00000000-0000-4000-8000-000000000000", "space": "pid:[4026531836]", "worker": "0123456789ab"}');
INSERT INTO "trial_user_attributes" VALUES(89,24,'seed','1');
INSERT INTO "trial_user_attributes" VALUES(90,24,'conditions','{"workload": "own"}');
INSERT INTO "trial_user_attributes" VALUES(91,24,'owner','{"host": "somewhere", "pid": 21892, "created": 1795368961.95, "start": 184795, "boot": "00000000-0000-4000-8000-000000000000", "space": "pid:[4026531836]", "worker": "0123456789ab"}');
INSERT INTO "trial_user_attributes" VALUES(92,20,'result','{"status": "complete", "initial_loss": null, "n_params": 0, "n_params_total": 0, "n_tokens": 0, "epochs": 0.0, "flops": 0.0, "wall_s": 1.3968000075692544e-05, "diverged_step": null, "updates": 0}');
INSERT INTO "trial_user_attributes" VALUES(93,21,'result','{"status": "complete", "initial_loss": null, "n_params": 0, "n_params_total": 0, "n_tokens": 0, "epochs": 0.0, "flops": 0.0, "wall_s": 1.3033999948675046e-05, "diverged_step": null, "updates": 0}');
INSERT INTO "trial_user_attributes" VALUES(94,22,'result','{"status": "complete", "initial_loss": null, "n_params": 0, "n_params_total": 0, "n_tokens": 0, "epochs": 0.0, "flops": 0.0, "wall_s": 1.1947000075451797e-05, "diverged_step": null, "updates": 0}');
INSERT INTO "trial_user_attributes" VALUES(95,23,'result','{"status": "diverged", "initial_loss": null, "n_params": 0, "n_params_total": 0, "n_tokens": 0, "epochs": 0.0, "flops": 0.0, "wall_s": 1.3226999953985796e-05, "diverged_step": null, "updates": 0}');
INSERT INTO "trial_user_attributes" VALUES(96,24,'result','{"status": "diverged", "initial_loss": null, "n_params": 0, "n_params_total": 0, "n_tokens": 0, "epochs": 0.0, "flops": 0.0, "wall_s": 1.2268000091353315e-05, "diverged_step": null, "updates": 0}');
INSERT INTO "trial_user_attributes" VALUES(97,25,'seed','0');
INSERT INTO "trial_user_attributes" VALUES(98,25,'conditions','{"workload": "own"}');
INSERT INTO "trial_user_attributes" VALUES(99,25,'owner','{"host": "somewhere", "pid": 21892, "created": 1795368961.95, "start": 184795, "boot": "00000000-0000-4000-8000-000000000000", "space": "pid:[4026531836]", "worker": "0123456789ab"}');
INSERT INTO "trial_user_attributes" VALUES(100,25,'result','{"status": "complete", "initial_loss": null, "n_params": 0, "n_params_total": 0, "n_tokens": 0, "epochs": 0.0, "flops": 0.0, "wall_s": 1.4619000012316974e-05, "diverged_step": null, "updates": 0}');
INSERT INTO "trial_user_attributes" VALUES(101,26,'seed','1');
INSERT INTO "trial_user_attributes" VALUES(102,26,'conditions','{"workload": "own"}');
INSERT INTO "trial_user_attributes" VALUES(103,26,'owner','{"host": "somewhere", "pid": 21892, "created": 1795368961.95, "start": 184795, "boot": "00000000-0000-4000-8000-000000000000", "space": "pid:[4026531836]", "worker": "0123456789ab"}');
INSERT INTO "trial_user_attributes" VALUES(104,27,'seed','0');
INSERT INTO "trial_user_attributes" VALUES(105,27,'conditions','{"workload": "own"}');
INSERT INTO "trial_user_attributes" VALUES(106,27,'owner','{"host": "somewhere", "pid": 21892, "created": 1795368961.95, "start": 184795, "boot": "00000000-0000-4000-8000-000000000000", "space": "pid:[4026531836]", "worker": "0123456789ab"}');
INSERT INTO "trial_user_attributes" VALUES(107,26,'result','{"status": "complete", "initial_loss": null, "n_params": 0, "n_params_total": 0, "n_tokens": 0, "epochs": 0.0, "flops": 0.0, "wall_s": 1.2609000123120495e-05, "diverged_step": null, "updates": 0}');
INSERT INTO "trial_user_attributes" VALUES(108,27,'result','{"status": "complete", "initial_loss": null, "n_params": 0, "n_params_total": 0, "n_tokens": 0, "epochs": 0.0, "flops": 0.0, "wall_s": 1.2795999964509974e-05, "diverged_step": null, "updates": 0}');
INSERT INTO "trial_user_attributes" VALUES(109,28,'seed','1');
INSERT INTO "trial_user_attributes" VALUES(110,28,'conditions','{"workload": "own"}');
INSERT INTO "trial_user_attributes" VALUES(111,28,'owner','{"host": "somewhere", "pid": 21892, "created": 1795368961.95, "start": 184795, "boot": "00000000-0000-4000-8000-000000000000", "space": "pid:[4026531836]", "worker": "0123456789ab"}');
INSERT INTO "trial_user_attributes" VALUES(112,29,'seed','0');
INSERT INTO "trial_user_attributes" VALUES(113,29,'conditions','{"workload": "own"}');
INSERT INTO "trial_user_attributes" VALUES(114,29,'owner','{"host": "somewhere", "pid": 21892, "created": 1795368961.95, "start": 184795, "boot": "00000000-0000-4000-8000-000000000000", "space": "pid:[4026531836]", "worker": "0123456789ab"}');
INSERT INTO "trial_user_attributes" VALUES(115,30,'seed','1');
INSERT INTO "trial_user_attributes" VALUES(116,30,'conditions','{"workload": "own"}');
INSERT INTO "trial_user_attributes" VALUES(117,30,'owner','{"host": "somewhere", "pid": 21892, "created": 1795368961.95, "start": 184795, "boot": "00000000-0000-4000-8000-000000000000", "space": "pid:[4026531836]", "worker": "0123456789ab"}');
INSERT INTO "trial_user_attributes" VALUES(118,31,'seed','0');
INSERT INTO "trial_user_attributes" VALUES(119,31,'conditions','{"workload": "own"}');
INSERT INTO "trial_user_attributes" VALUES(120,31,'owner','{"host": "somewhere", "pid": 21892, "created": 1795368961.95, "start": 184795, "boot": "00000000-0000-4000-8000-000000000000", "space": "pid:[4026531836]", "worker": "0123456789ab"}');
INSERT INTO "trial_user_attributes" VALUES(121,28,'result','{"status": "complete", "initial_loss": null, "n_params": 0, "n_params_total": 0, "n_tokens": 0, "epochs": 0.0, "flops": 0.0, "wall_s": 1.3118999959260691e-05, "diverged_step": null, "updates": 0}');
INSERT INTO "trial_user_attributes" VALUES(122,29,'result','{"status": "complete", "initial_loss": null, "n_params": 0, "n_params_total": 0, "n_tokens": 0, "epochs": 0.0, "flops": 0.0, "wall_s": 1.0822000149346422e-05, "diverged_step": null, "updates": 0}');
INSERT INTO "trial_user_attributes" VALUES(123,30,'result','{"status": "complete", "initial_loss": null, "n_params": 0, "n_params_total": 0, "n_tokens": 0, "epochs": 0.0, "flops": 0.0, "wall_s": 1.1985999890384846e-05, "diverged_step": null, "updates": 0}');
INSERT INTO "trial_user_attributes" VALUES(124,31,'result','{"status": "complete", "initial_loss": null, "n_params": 0, "n_params_total": 0, "n_tokens": 0, "epochs": 0.0, "flops": 0.0, "wall_s": 8.71600013852003e-06, "diverged_step": null, "updates": 0}');
INSERT INTO "trial_user_attributes" VALUES(125,32,'seed','1');
INSERT INTO "trial_user_attributes" VALUES(126,32,'conditions','{"workload": "own"}');
INSERT INTO "trial_user_attributes" VALUES(127,32,'owner','{"host": "somewhere", "pid": 21892, "created": 1795368961.95, "start": 184795, "boot": "00000000-0000-4000-8000-000000000000", "space": "pid:[4026531836]", "worker": "0123456789ab"}');
INSERT INTO "trial_user_attributes" VALUES(128,33,'seed','0');
INSERT INTO "trial_user_attributes" VALUES(129,33,'conditions','{"workload": "own"}');
INSERT INTO "trial_user_attributes" VALUES(130,33,'owner','{"host": "somewhere", "pid": 21892, "created": 1795368961.95, "start": 184795, "boot": "00000000-0000-4000-8000-000000000000", "space": "pid:[4026531836]", "worker": "0123456789ab"}');
INSERT INTO "trial_user_attributes" VALUES(131,34,'seed','1');
INSERT INTO "trial_user_attributes" VALUES(132,34,'conditions','{"workload": "own"}');
INSERT INTO "trial_user_attributes" VALUES(133,34,'owner','{"host": "somewhere", "pid": 21892, "created": 1795368961.95, "start": 184795, "boot": "00000000-0000-4000-8000-000000000000", "space": "pid:[4026531836]", "worker": "0123456789ab"}');
INSERT INTO "trial_user_attributes" VALUES(134,35,'seed','0');
INSERT INTO "trial_user_attributes" VALUES(135,35,'conditions','{"workload": "own"}');
INSERT INTO "trial_user_attributes" VALUES(136,35,'owner','{"host": "somewhere", "pid": 21892, "created": 1795368961.95, "start": 184795, "boot": "00000000-0000-4000-8000-000000000000", "space": "pid:[4026531836]", "worker": "0123456789ab"}');
INSERT INTO "trial_user_attributes" VALUES(137,36,'seed','1');
INSERT INTO "trial_user_attributes" VALUES(138,36,'conditions','{"workload": "own"}');
INSERT INTO "trial_user_attributes" VALUES(139,36,'owner','{"host": "somewhere", "pid": 21892, "created": 1795368961.95, "start": 184795, "boot": "00000000-0000-4000-8000-000000000000", "space": "pid:[4026531836]", "worker": "0123456789ab"}');
INSERT INTO "trial_user_attributes" VALUES(140,32,'result','{"status": "complete", "initial_loss": null, "n_params": 0, "n_params_total": 0, "n_tokens": 0, "epochs": 0.0, "flops": 0.0, "wall_s": 1.2737999895762186e-05, "diverged_step": null, "updates": 0}');
INSERT INTO "trial_user_attributes" VALUES(141,33,'result','{"status": "complete", "initial_loss": null, "n_params": 0, "n_params_total": 0, "n_tokens": 0, "epochs": 0.0, "flops": 0.0, "wall_s": 1.1768999911510036e-05, "diverged_step": null, "updates": 0}');
INSERT INTO "trial_user_attributes" VALUES(142,34,'result','{"status": "complete", "initial_loss": null, "n_params": 0, "n_params_total": 0, "n_tokens": 0, "epochs": 0.0, "flops": 0.0, "wall_s": 1.4093000118009513e-05, "diverged_step": null, "updates": 0}');
INSERT INTO "trial_user_attributes" VALUES(143,35,'result','{"status": "diverged", "initial_loss": null, "n_params": 0, "n_params_total": 0, "n_tokens": 0, "epochs": 0.0, "flops": 0.0, "wall_s": 1.3519000049200258e-05, "diverged_step": null, "updates": 0}');
INSERT INTO "trial_user_attributes" VALUES(144,36,'result','{"status": "diverged", "initial_loss": null, "n_params": 0, "n_params_total": 0, "n_tokens": 0, "epochs": 0.0, "flops": 0.0, "wall_s": 1.4037000028110924e-05, "diverged_step": null, "updates": 0}');
INSERT INTO "trial_user_attributes" VALUES(145,37,'seed','0');
INSERT INTO "trial_user_attributes" VALUES(146,37,'conditions','{"workload": "own"}');
INSERT INTO "trial_user_attributes" VALUES(147,37,'owner','{"host": "somewhere", "pid": 21892, "created": 1795368961.95, "start": 184795, "boot": "00000000-0000-4000-8000-000000000000", "space": "pid:[4026531836]", "worker": "0123456789ab"}');
INSERT INTO "trial_user_attributes" VALUES(148,37,'result','{"status": "complete", "initial_loss": null, "n_params": 0, "n_params_total": 0, "n_tokens": 0, "epochs": 0.0, "flops": 0.0, "wall_s": 1.398200015501061e-05, "diverged_step": null, "updates": 0}');
INSERT INTO "trial_user_attributes" VALUES(149,38,'seed','1');
INSERT INTO "trial_user_attributes" VALUES(150,38,'conditions','{"workload": "own"}');
INSERT INTO "trial_user_attributes" VALUES(151,38,'owner','{"host": "somewhere", "pid": 21892, "created": 1795368961.95, "start": 184795, "boot": "00000000-0000-4000-8000-000000000000", "space": "pid:[4026531836]", "worker": "0123456789ab"}');
INSERT INTO "trial_user_attributes" VALUES(152,39,'seed','0');
INSERT INTO "trial_user_attributes" VALUES(153,39,'conditions','{"workload": "own"}');
INSERT INTO "trial_user_attributes" VALUES(154,39,'owner','{"host": "somewhere", "pid": 21892, "created": 1795368961.95, "start": 184795, "boot": "00000000-0000-4000-8000-000000000000", "space": "pid:[4026531836]", "worker": "0123456789ab"}');
INSERT INTO "trial_user_attributes" VALUES(155,38,'result','{"status": "complete", "initial_loss": null, "n_params": 0, "n_params_total": 0, "n_tokens": 0, "epochs": 0.0, "flops": 0.0, "wall_s": 1.4689999943584553e-05, "diverged_step": null, "updates": 0}');
INSERT INTO "trial_user_attributes" VALUES(156,39,'result','{"status": "complete", "initial_loss": null, "n_params": 0, "n_params_total": 0, "n_tokens": 0, "epochs": 0.0, "flops": 0.0, "wall_s": 1.422200011802488e-05, "diverged_step": null, "updates": 0}');
INSERT INTO "trial_user_attributes" VALUES(157,40,'seed','1');
INSERT INTO "trial_user_attributes" VALUES(158,40,'conditions','{"workload": "own"}');
INSERT INTO "trial_user_attributes" VALUES(159,40,'owner','{"host": "somewhere", "pid": 21892, "created": 1795368961.95, "start": 184795, "boot": "00000000-0000-4000-8000-000000000000", "space": "pid:[4026531836]", "worker": "0123456789ab"}');
INSERT INTO "trial_user_attributes" VALUES(160,41,'seed','0');
INSERT INTO "trial_user_attributes" VALUES(161,41,'conditions','{"workload": "own"}');
INSERT INTO "trial_user_attributes" VALUES(162,41,'owner','{"host": "somewhere", "pid": 21892, "created": 1795368961.95, "start": 184795, "boot": "00000000-0000-4000-8000-000000000000", "space": "pid:[4026531836]", "worker": "0123456789ab"}');
INSERT INTO "trial_user_attributes" VALUES(163,42,'seed','1');
INSERT INTO "trial_user_attributes" VALUES(164,42,'conditions','{"workload": "own"}');
INSERT INTO "trial_user_attributes" VALUES(165,42,'owner','{"host": "somewhere", "pid": 21892, "created": 1795368961.95, "start": 184795, "boot": "00000000-0000-4000-8000-000000000000", "space": "pid:[4026531836]", "worker": "0123456789ab"}');
INSERT INTO "trial_user_attributes" VALUES(166,43,'seed','0');
INSERT INTO "trial_user_attributes" VALUES(167,43,'conditions','{"workload": "own"}');
INSERT INTO "trial_user_attributes" VALUES(168,43,'owner','{"host": "somewhere", "pid": 21892, "created": 1795368961.95, "start": 184795, "boot": "00000000-0000-4000-8000-000000000000", "space": "pid:[4026531836]", "worker": "0123456789ab"}');
INSERT INTO "trial_user_attributes" VALUES(169,40,'result','{"status": "complete", "initial_loss": null, "n_params": 0, "n_params_total": 0, "n_tokens": 0, "epochs": 0.0, "flops": 0.0, "wall_s": 1.4226999837774201e-05, "diverged_step": null, "updates": 0}');
INSERT INTO "trial_user_attributes" VALUES(170,41,'result','{"status": "complete", "initial_loss": null, "n_params": 0, "n_params_total": 0, "n_tokens": 0, "epochs": 0.0, "flops": 0.0, "wall_s": 1.4336999811348505e-05, "diverged_step": null, "updates": 0}');
INSERT INTO "trial_user_attributes" VALUES(171,42,'result','{"status": "complete", "initial_loss": null, "n_params": 0, "n_params_total": 0, "n_tokens": 0, "epochs": 0.0, "flops": 0.0, "wall_s": 1.3122000154908164e-05, "diverged_step": null, "updates": 0}');
INSERT INTO "trial_user_attributes" VALUES(172,43,'result','{"status": "complete", "initial_loss": null, "n_params": 0, "n_params_total": 0, "n_tokens": 0, "epochs": 0.0, "flops": 0.0, "wall_s": 1.1242000027777976e-05, "diverged_step": null, "updates": 0}');
INSERT INTO "trial_user_attributes" VALUES(173,44,'seed','1');
INSERT INTO "trial_user_attributes" VALUES(174,44,'conditions','{"workload": "own"}');
INSERT INTO "trial_user_attributes" VALUES(175,44,'owner','{"host": "somewhere", "pid": 21892, "created": 1795368961.95, "start": 184795, "boot": "00000000-0000-4000-8000-000000000000", "space": "pid:[4026531836]", "worker": "0123456789ab"}');
INSERT INTO "trial_user_attributes" VALUES(176,45,'seed','0');
INSERT INTO "trial_user_attributes" VALUES(177,45,'conditions','{"workload": "own"}');
INSERT INTO "trial_user_attributes" VALUES(178,45,'owner','{"host": "somewhere", "pid": 21892, "created": 1795368961.95, "start": 184795, "boot": "00000000-0000-4000-8000-000000000000", "space": "pid:[4026531836]", "worker": "0123456789ab"}');
INSERT INTO "trial_user_attributes" VALUES(179,46,'seed','1');
INSERT INTO "trial_user_attributes" VALUES(180,46,'conditions','{"workload": "own"}');
INSERT INTO "trial_user_attributes" VALUES(181,46,'owner','{"host": "somewhere", "pid": 21892, "created": 1795368961.95, "start": 184795, "boot": "00000000-0000-4000-8000-000000000000", "space": "pid:[4026531836]", "worker": "0123456789ab"}');
INSERT INTO "trial_user_attributes" VALUES(182,47,'seed','0');
INSERT INTO "trial_user_attributes" VALUES(183,47,'conditions','{"workload": "own"}');
INSERT INTO "trial_user_attributes" VALUES(184,47,'owner','{"host": "somewhere", "pid": 21892, "created": 1795368961.95, "start": 184795, "boot": "00000000-0000-4000-8000-000000000000", "space": "pid:[4026531836]", "worker": "0123456789ab"}');
INSERT INTO "trial_user_attributes" VALUES(185,48,'seed','1');
INSERT INTO "trial_user_attributes" VALUES(186,48,'conditions','{"workload": "own"}');
INSERT INTO "trial_user_attributes" VALUES(187,48,'owner','{"host": "somewhere", "pid": 21892, "created": 1795368961.95, "start": 184795, "boot": "00000000-0000-4000-8000-000000000000", "space": "pid:[4026531836]", "worker": "0123456789ab"}');
INSERT INTO "trial_user_attributes" VALUES(188,44,'result','{"status": "complete", "initial_loss": null, "n_params": 0, "n_params_total": 0, "n_tokens": 0, "epochs": 0.0, "flops": 0.0, "wall_s": 1.2406999985614675e-05, "diverged_step": null, "updates": 0}');
INSERT INTO "trial_user_attributes" VALUES(189,45,'result','{"status": "complete", "initial_loss": null, "n_params": 0, "n_params_total": 0, "n_tokens": 0, "epochs": 0.0, "flops": 0.0, "wall_s": 1.1123999911433202e-05, "diverged_step": null, "updates": 0}');
INSERT INTO "trial_user_attributes" VALUES(190,46,'result','{"status": "complete", "initial_loss": null, "n_params": 0, "n_params_total": 0, "n_tokens": 0, "epochs": 0.0, "flops": 0.0, "wall_s": 1.2365999964458751e-05, "diverged_step": null, "updates": 0}');
INSERT INTO "trial_user_attributes" VALUES(191,47,'result','{"status": "diverged", "initial_loss": null, "n_params": 0, "n_params_total": 0, "n_tokens": 0, "epochs": 0.0, "flops": 0.0, "wall_s": 1.2526000091384049e-05, "diverged_step": null, "updates": 0}');
INSERT INTO "trial_user_attributes" VALUES(192,48,'result','{"status": "diverged", "initial_loss": null, "n_params": 0, "n_params_total": 0, "n_tokens": 0, "epochs": 0.0, "flops": 0.0, "wall_s": 1.4079000038691447e-05, "diverged_step": null, "updates": 0}');
CREATE TABLE trial_values (
	trial_value_id INTEGER NOT NULL, 
	trial_id INTEGER NOT NULL, 
	objective INTEGER NOT NULL, 
	value FLOAT, 
	value_type VARCHAR(7) NOT NULL, 
	PRIMARY KEY (trial_value_id), 
	UNIQUE (trial_id, objective), 
	FOREIGN KEY(trial_id) REFERENCES trials (trial_id)
);
INSERT INTO "trial_values" VALUES(1,1,0,3.45086064511828283229e+00,'FINITE');
INSERT INTO "trial_values" VALUES(2,2,0,3.45161156194759577431e+00,'FINITE');
INSERT INTO "trial_values" VALUES(3,3,0,3.00363063047479,'FINITE');
INSERT INTO "trial_values" VALUES(4,4,0,3.00604235865342861444e+00,'FINITE');
INSERT INTO "trial_values" VALUES(5,5,0,2.73751766487806902361e+00,'FINITE');
INSERT INTO "trial_values" VALUES(6,6,0,2.74075862010177129235e+00,'FINITE');
INSERT INTO "trial_values" VALUES(7,7,0,2.58897491641683297203e+00,'FINITE');
INSERT INTO "trial_values" VALUES(8,8,0,2.58576235715353286437e+00,'FINITE');
INSERT INTO "trial_values" VALUES(9,9,0,2.55096138033969266345e+00,'FINITE');
INSERT INTO "trial_values" VALUES(10,10,0,2.54756442675816296983e+00,'FINITE');
INSERT INTO "trial_values" VALUES(11,11,0,NULL,'INF_POS');
INSERT INTO "trial_values" VALUES(12,12,0,NULL,'INF_POS');
INSERT INTO "trial_values" VALUES(13,13,0,2.84641940920490510436e+00,'FINITE');
INSERT INTO "trial_values" VALUES(14,14,0,2.84696231175040148642e+00,'FINITE');
INSERT INTO "trial_values" VALUES(15,15,0,2.56665274533685883184e+00,'FINITE');
INSERT INTO "trial_values" VALUES(16,16,0,2.56383102392397788094e+00,'FINITE');
INSERT INTO "trial_values" VALUES(17,17,0,2.39361839660629360793e+00,'FINITE');
INSERT INTO "trial_values" VALUES(18,18,0,2.39142691921558725454e+00,'FINITE');
INSERT INTO "trial_values" VALUES(19,19,0,2.33370294500484209976e+00,'FINITE');
INSERT INTO "trial_values" VALUES(20,20,0,2.33603991873803362722e+00,'FINITE');
INSERT INTO "trial_values" VALUES(21,21,0,2.36320878592725902578e+00,'FINITE');
INSERT INTO "trial_values" VALUES(22,22,0,2.36592702266388776877e+00,'FINITE');
INSERT INTO "trial_values" VALUES(23,23,0,NULL,'INF_POS');
INSERT INTO "trial_values" VALUES(24,24,0,NULL,'INF_POS');
INSERT INTO "trial_values" VALUES(25,25,0,2.45462769177322348568e+00,'FINITE');
INSERT INTO "trial_values" VALUES(26,26,0,2.45690085100068733581e+00,'FINITE');
INSERT INTO "trial_values" VALUES(27,27,0,2.27409448007530157198e+00,'FINITE');
INSERT INTO "trial_values" VALUES(28,28,0,2.27091756132902977682e+00,'FINITE');
INSERT INTO "trial_values" VALUES(29,29,0,2.18110349950901305504e+00,'FINITE');
INSERT INTO "trial_values" VALUES(30,30,0,2.18071528671668346532e+00,'FINITE');
INSERT INTO "trial_values" VALUES(31,31,0,2.19057086859387117883e+00,'FINITE');
INSERT INTO "trial_values" VALUES(32,32,0,2.19121220453671883277e+00,'FINITE');
INSERT INTO "trial_values" VALUES(33,33,0,2.28151180513338847077e+00,'FINITE');
INSERT INTO "trial_values" VALUES(34,34,0,2.28268790478777505725e+00,'FINITE');
INSERT INTO "trial_values" VALUES(35,35,0,NULL,'INF_POS');
INSERT INTO "trial_values" VALUES(36,36,0,NULL,'INF_POS');
INSERT INTO "trial_values" VALUES(37,37,0,2.19978511508272855934e+00,'FINITE');
INSERT INTO "trial_values" VALUES(38,38,0,2.20271913326370682995e+00,'FINITE');
INSERT INTO "trial_values" VALUES(39,39,0,2.08755446394228405537e+00,'FINITE');
INSERT INTO "trial_values" VALUES(40,40,0,2.08618060474109334734e+00,'FINITE');
INSERT INTO "trial_values" VALUES(41,41,0,2.06399460829284331353e+00,'FINITE');
INSERT INTO "trial_values" VALUES(42,42,0,2.0664950743398069477e+00,'FINITE');
INSERT INTO "trial_values" VALUES(43,43,0,2.13128155561401,'FINITE');
INSERT INTO "trial_values" VALUES(44,44,0,2.12883666248766045825e+00,'FINITE');
INSERT INTO "trial_values" VALUES(45,45,0,2.28362551281766,'FINITE');
INSERT INTO "trial_values" VALUES(46,46,0,2.28134589343583682463e+00,'FINITE');
INSERT INTO "trial_values" VALUES(47,47,0,NULL,'INF_POS');
INSERT INTO "trial_values" VALUES(48,48,0,NULL,'INF_POS');
CREATE TABLE trials (
	trial_id INTEGER NOT NULL, 
	number INTEGER, 
	study_id INTEGER, 
	state VARCHAR(8) NOT NULL, 
	datetime_start DATETIME, 
	datetime_complete DATETIME, 
	PRIMARY KEY (trial_id), 
	FOREIGN KEY(study_id) REFERENCES studies (study_id)
);
INSERT INTO "trials" VALUES(1,0,1,'COMPLETE','2026-11-22 17:36:05.103026','2026-11-22 17:36:05.156283');
INSERT INTO "trials" VALUES(2,1,1,'COMPLETE','2026-11-22 17:36:05.182895','2026-11-22 17:36:05.209720');
INSERT INTO "trials" VALUES(3,2,1,'COMPLETE','2026-11-22 17:36:05.182934','2026-11-22 17:36:05.235117');
INSERT INTO "trials" VALUES(4,3,1,'COMPLETE','2026-11-22 17:36:05.255158','2026-11-22 17:36:05.293424');
INSERT INTO "trials" VALUES(5,4,1,'COMPLETE','2026-11-22 17:36:05.255198','2026-11-22 17:36:05.311090');
INSERT INTO "trials" VALUES(6,5,1,'COMPLETE','2026-11-22 17:36:05.255217','2026-11-22 17:36:05.331180');
INSERT INTO "trials" VALUES(7,6,1,'COMPLETE','2026-11-22 17:36:05.255233','2026-11-22 17:36:05.351091');
INSERT INTO "trials" VALUES(8,7,1,'COMPLETE','2026-11-22 17:36:05.375140','2026-11-22 17:36:05.421685');
INSERT INTO "trials" VALUES(9,8,1,'COMPLETE','2026-11-22 17:36:05.375178','2026-11-22 17:36:05.455092');
INSERT INTO "trials" VALUES(10,9,1,'COMPLETE','2026-11-22 17:36:05.375191','2026-11-22 17:36:05.487067');
INSERT INTO "trials" VALUES(11,10,1,'COMPLETE','2026-11-22 17:36:05.375202','2026-11-22 17:36:05.507086');
INSERT INTO "trials" VALUES(12,11,1,'COMPLETE','2026-11-22 17:36:05.375212','2026-11-22 17:36:05.535082');
INSERT INTO "trials" VALUES(13,0,2,'COMPLETE','2026-11-22 17:36:05.551162','2026-11-22 17:36:05.620953');
INSERT INTO "trials" VALUES(14,1,2,'COMPLETE','2026-11-22 17:36:05.638781','2026-11-22 17:36:05.669033');
INSERT INTO "trials" VALUES(15,2,2,'COMPLETE','2026-11-22 17:36:05.638813','2026-11-22 17:36:05.678794');
INSERT INTO "trials" VALUES(16,3,2,'COMPLETE','2026-11-22 17:36:05.685664','2026-11-22 17:36:05.708147');
INSERT INTO "trials" VALUES(17,4,2,'COMPLETE','2026-11-22 17:36:05.685693','2026-11-22 17:36:05.718899');
INSERT INTO "trials" VALUES(18,5,2,'COMPLETE','2026-11-22 17:36:05.685704','2026-11-22 17:36:05.728810');
INSERT INTO "trials" VALUES(19,6,2,'COMPLETE','2026-11-22 17:36:05.685715','2026-11-22 17:36:05.738888');
INSERT INTO "trials" VALUES(20,7,2,'COMPLETE','2026-11-22 17:36:05.752015','2026-11-22 17:36:05.831125');
INSERT INTO "trials" VALUES(21,8,2,'COMPLETE','2026-11-22 17:36:05.752044','2026-11-22 17:36:05.840263');
INSERT INTO "trials" VALUES(22,9,2,'COMPLETE','2026-11-22 17:36:05.752056','2026-11-22 17:36:05.847553');
INSERT INTO "trials" VALUES(23,10,2,'COMPLETE','2026-11-22 17:36:05.752066','2026-11-22 17:36:05.855264');
INSERT INTO "trials" VALUES(24,11,2,'COMPLETE','2026-11-22 17:36:05.752075','2026-11-22 17:36:05.866720');
INSERT INTO "trials" VALUES(25,0,3,'COMPLETE','2026-11-22 17:36:05.872193','2026-11-22 17:36:06.105353');
INSERT INTO "trials" VALUES(26,1,3,'COMPLETE','2026-11-22 17:36:06.145127','2026-11-22 17:36:06.173339');
INSERT INTO "trials" VALUES(27,2,3,'COMPLETE','2026-11-22 17:36:06.145161','2026-11-22 17:36:06.181787');
INSERT INTO "trials" VALUES(28,3,3,'COMPLETE','2026-11-22 17:36:06.195055','2026-11-22 17:36:06.217690');
INSERT INTO "trials" VALUES(29,4,3,'COMPLETE','2026-11-22 17:36:06.195084','2026-11-22 17:36:06.225483');
INSERT INTO "trials" VALUES(30,5,3,'COMPLETE','2026-11-22 17:36:06.195096','2026-11-22 17:36:06.235920');
INSERT INTO "trials" VALUES(31,6,3,'COMPLETE','2026-11-22 17:36:06.195106','2026-11-22 17:36:06.239823');
INSERT INTO "trials" VALUES(32,7,3,'COMPLETE','2026-11-22 17:36:06.257918','2026-11-22 17:36:06.341656');
INSERT INTO "trials" VALUES(33,8,3,'COMPLETE','2026-11-22 17:36:06.257948','2026-11-22 17:36:06.371261');
INSERT INTO "trials" VALUES(34,9,3,'COMPLETE','2026-11-22 17:36:06.257960','2026-11-22 17:36:06.397622');
INSERT INTO "trials" VALUES(35,10,3,'COMPLETE','2026-11-22 17:36:06.257970','2026-11-22 17:36:06.427140');
INSERT INTO "trials" VALUES(36,11,3,'COMPLETE','2026-11-22 17:36:06.257980','2026-11-22 17:36:06.443112');
INSERT INTO "trials" VALUES(37,0,4,'COMPLETE','2026-11-22 17:36:06.473645','2026-11-22 17:36:06.605137');
INSERT INTO "trials" VALUES(38,1,4,'COMPLETE','2026-11-22 17:36:06.626905','2026-11-22 17:36:06.669281');
INSERT INTO "trials" VALUES(39,2,4,'COMPLETE','2026-11-22 17:36:06.626940','2026-11-22 17:36:06.695168');
INSERT INTO "trials" VALUES(40,3,4,'COMPLETE','2026-11-22 17:36:06.723176','2026-11-22 17:36:06.769417');
INSERT INTO "trials" VALUES(41,4,4,'COMPLETE','2026-11-22 17:36:06.723208','2026-11-22 17:36:06.788110');
INSERT INTO "trials" VALUES(42,5,4,'COMPLETE','2026-11-22 17:36:06.723219','2026-11-22 17:36:06.796598');
INSERT INTO "trials" VALUES(43,6,4,'COMPLETE','2026-11-22 17:36:06.723229','2026-11-22 17:36:06.809837');
INSERT INTO "trials" VALUES(44,7,4,'COMPLETE','2026-11-22 17:36:06.823724','2026-11-22 17:36:06.856682');
INSERT INTO "trials" VALUES(45,8,4,'COMPLETE','2026-11-22 17:36:06.823754','2026-11-22 17:36:06.873587');
INSERT INTO "trials" VALUES(46,9,4,'COMPLETE','2026-11-22 17:36:06.823766','2026-11-22 17:36:06.888913');
INSERT INTO "trials" VALUES(47,10,4,'COMPLETE','2026-11-22 17:36:06.823776','2026-11-22 17:36:06.902234');
INSERT INTO "trials" VALUES(48,11,4,'COMPLETE','2026-11-22 17:36:06.823785','2026-11-22 17:36:06.927209');
CREATE TABLE version_info (
	version_info_id INTEGER NOT NULL, 
	schema_version INTEGER, 
	library_version VARCHAR(256), 
	PRIMARY KEY (version_info_id), 
	CHECK (version_info_id=1)
);
INSERT INTO "version_info" VALUES(1,12,'5.0.0');
CREATE UNIQUE INDEX ix_studies_study_name ON studies (study_name);
CREATE INDEX ix_trials_study_id ON trials (study_id);
COMMIT;
