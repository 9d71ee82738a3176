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
INSERT INTO "studies" VALUES(1,'theirs');
INSERT INTO "studies" VALUES(2,'both');
INSERT INTO "studies" VALUES(3,'old/width=8');
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
INSERT INTO "study_directions" VALUES(3,'MAXIMIZE',2,1);
INSERT INTO "study_directions" VALUES(4,'MINIMIZE',3,0);
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
INSERT INTO "study_user_attributes" VALUES(1,1,'note','{"by": ["somebody", 1, null]}');
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
INSERT INTO "trial_intermediate_values" VALUES(1,1,0,3.0,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(2,1,1,NULL,'INF_POS');
INSERT INTO "trial_intermediate_values" VALUES(3,1,2,NULL,'NAN');
INSERT INTO "trial_intermediate_values" VALUES(4,1,3,-1.0e+308,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(5,2,0,3.0,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(6,2,1,NULL,'INF_POS');
INSERT INTO "trial_intermediate_values" VALUES(7,2,2,NULL,'NAN');
INSERT INTO "trial_intermediate_values" VALUES(8,2,3,-1.0e+308,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(9,3,0,3.0,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(10,3,1,NULL,'INF_POS');
INSERT INTO "trial_intermediate_values" VALUES(11,3,2,NULL,'NAN');
INSERT INTO "trial_intermediate_values" VALUES(12,3,3,-1.0e+308,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(13,4,0,3.0,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(14,4,1,NULL,'INF_POS');
INSERT INTO "trial_intermediate_values" VALUES(15,4,2,NULL,'NAN');
INSERT INTO "trial_intermediate_values" VALUES(16,4,3,-1.0e+308,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(17,7,1,2.75,'FINITE');
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
INSERT INTO "trial_params" VALUES(1,1,'lr',4.43037524521826871909e-03,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.0001, "high": 0.1, "log": true}}');
INSERT INTO "trial_params" VALUES(2,1,'layers',3.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 1, "low": 1, "high": 4}}');
INSERT INTO "trial_params" VALUES(3,1,'kind',3.0,'{"name": "CategoricalDistribution", "attributes": {"choices": ["sgd", "adam", null, 3, true]}}');
INSERT INTO "trial_params" VALUES(4,2,'lr',4.73498930449947827425e-02,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.0001, "high": 0.1, "log": true}}');
INSERT INTO "trial_params" VALUES(5,2,'layers',4.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 1, "low": 1, "high": 4}}');
INSERT INTO "trial_params" VALUES(6,2,'kind',4.0,'{"name": "CategoricalDistribution", "attributes": {"choices": ["sgd", "adam", null, 3, true]}}');
INSERT INTO "trial_params" VALUES(7,3,'lr',1.6334587611069496674e-04,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.0001, "high": 0.1, "log": true}}');
INSERT INTO "trial_params" VALUES(8,3,'layers',1.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 1, "low": 1, "high": 4}}');
INSERT INTO "trial_params" VALUES(9,3,'kind',4.0,'{"name": "CategoricalDistribution", "attributes": {"choices": ["sgd", "adam", null, 3, true]}}');
INSERT INTO "trial_params" VALUES(10,4,'lr',0.0249732861040606,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.0001, "high": 0.1, "log": true}}');
INSERT INTO "trial_params" VALUES(11,4,'layers',2.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 1, "low": 1, "high": 4}}');
INSERT INTO "trial_params" VALUES(12,4,'kind',4.0,'{"name": "CategoricalDistribution", "attributes": {"choices": ["sgd", "adam", null, 3, true]}}');
INSERT INTO "trial_params" VALUES(13,10,'lr',6.71753512847222622461e-01,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.0, "high": 1.0, "log": false}}');
INSERT INTO "trial_params" VALUES(14,11,'lr',1.64645746581981548828e-02,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.01, "high": 0.02, "log": false}}');
CREATE TABLE trial_system_attributes (
	trial_system_attribute_id INTEGER NOT NULL, 
	trial_id INTEGER, 
	"key" VARCHAR(512), 
	value_json TEXT, 
	PRIMARY KEY (trial_system_attribute_id), 
	UNIQUE (trial_id, "key"), 
	FOREIGN KEY(trial_id) REFERENCES trials (trial_id)
);
INSERT INTO "trial_system_attributes" VALUES(1,9,'fixed_params','{"lr": 0.01}');
INSERT INTO "trial_system_attributes" VALUES(2,10,'nsga2:generation','0');
CREATE TABLE trial_user_attributes (
	trial_user_attribute_id INTEGER NOT NULL, 
	trial_id INTEGER, 
	"key" VARCHAR(512), 
	value_json TEXT, 
	PRIMARY KEY (trial_user_attribute_id), 
	UNIQUE (trial_id, "key"), 
	FOREIGN KEY(trial_id) REFERENCES trials (trial_id)
);
INSERT INTO "trial_user_attributes" VALUES(1,1,'width','8');
INSERT INTO "trial_user_attributes" VALUES(2,1,'many','[1, {"deep": [2]}]');
INSERT INTO "trial_user_attributes" VALUES(3,2,'width','16');
INSERT INTO "trial_user_attributes" VALUES(4,2,'many','[1, {"deep": [2]}]');
INSERT INTO "trial_user_attributes" VALUES(5,3,'width','32');
INSERT INTO "trial_user_attributes" VALUES(6,3,'many','[1, {"deep": [2]}]');
INSERT INTO "trial_user_attributes" VALUES(7,4,'width','64');
INSERT INTO "trial_user_attributes" VALUES(8,4,'many','[1, {"deep": [2]}]');
INSERT INTO "trial_user_attributes" VALUES(9,11,'seed','0');
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
INSERT INTO "trial_values" VALUES(1,1,0,2.5,'FINITE');
INSERT INTO "trial_values" VALUES(2,2,0,1.0e+300,'FINITE');
INSERT INTO "trial_values" VALUES(3,3,0,NULL,'INF_POS');
INSERT INTO "trial_values" VALUES(4,4,0,1.0e-300,'FINITE');
INSERT INTO "trial_values" VALUES(5,7,0,2.75,'FINITE');
INSERT INTO "trial_values" VALUES(6,10,0,1.5,'FINITE');
INSERT INTO "trial_values" VALUES(7,10,1,NULL,'INF_POS');
INSERT INTO "trial_values" VALUES(8,11,0,1.25,'FINITE');
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
INSERT INTO "trials" VALUES(1,0,1,'COMPLETE','2026-11-21 21:59:34.039069','2026-11-21 21:59:34.130602');
INSERT INTO "trials" VALUES(2,1,1,'COMPLETE','2026-11-21 21:59:34.160556','2026-11-21 21:59:34.239072');
INSERT INTO "trials" VALUES(3,2,1,'COMPLETE','2026-11-21 21:59:34.252829','2026-11-21 21:59:34.315177');
INSERT INTO "trials" VALUES(4,3,1,'COMPLETE','2026-11-21 21:59:34.329516','2026-11-21 21:59:34.402116');
INSERT INTO "trials" VALUES(5,4,1,'FAIL','2026-11-21 21:59:34.416590','2026-11-21 21:59:34.428352');
INSERT INTO "trials" VALUES(6,5,1,'FAIL','2026-11-21 21:59:34.444888','2026-11-21 21:59:34.458825');
INSERT INTO "trials" VALUES(7,6,1,'PRUNED','2026-11-21 21:59:34.472209','2026-11-21 21:59:34.491831');
INSERT INTO "trials" VALUES(8,7,1,'RUNNING','2026-11-21 21:59:34.507607',NULL);
INSERT INTO "trials" VALUES(9,8,1,'WAITING',NULL,NULL);
INSERT INTO "trials" VALUES(10,0,2,'COMPLETE','2026-11-21 21:59:34.583774','2026-11-21 21:59:34.668111');
INSERT INTO "trials" VALUES(11,0,3,'COMPLETE','2026-11-21 21:59:34.742674','2026-11-21 21:59:34.810061');
CREATE TABLE version_info (
	version_info_id INTEGER NOT NULL, 
	schema_version INTEGER, 
	library_version VARCHAR(256), 
	PRIMARY KEY (version_info_id), 
	CHECK (version_info_id=1)
);
INSERT INTO "version_info" VALUES(1,12,'3.6.2');
CREATE UNIQUE INDEX ix_studies_study_name ON studies (study_name);
CREATE INDEX ix_trials_study_id ON trials (study_id);
COMMIT;
