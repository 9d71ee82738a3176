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
INSERT INTO "trial_intermediate_values" VALUES(1,1,1,2.56427999999999967073e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(2,1,2,2.35059,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(3,1,3,2.1369,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(4,2,1,2.43468,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(5,2,2,2.23179,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(6,2,3,2.0289,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(7,3,1,2.40108,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(8,3,2,2.20099000000000044607e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(9,3,3,2.0009,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(10,4,1,2.46348,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(11,4,2,2.25819000000000036365e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(12,4,3,2.0529,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(13,5,1,2.62187999999999954425e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(14,5,2,2.40339,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(15,5,3,2.1849,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(16,6,1,2.16693306376695593584e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(17,6,2,1.98635530845304320024e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(18,6,3,1.80577755313913,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(19,7,1,2.0686037131706105363e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(20,7,2,1.89622007040639339869e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(21,7,3,1.72383642764217559495e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(22,8,1,2.05221548807122,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(23,8,2,1.8811975307319517281e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(24,8,3,1.71017957339268322769e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(25,9,1,2.11776838846878323607e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(26,9,2,1.94128768942971841049e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(27,9,3,1.76480699039065291877e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(28,10,1,2.26526241436330089129e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(29,10,2,2.07649054649969277974e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(30,10,3,1.88771867863608400206e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(31,11,1,1.8705599999999995564e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(32,11,2,1.7146799999999997599e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(33,11,3,1.55879999999999974136e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(34,12,1,1.80576,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(35,12,2,1.65528000000000030667e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(36,12,3,1.50480000000000013749e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(37,13,1,1.81296000000000012697e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(38,13,2,1.66188000000000024591e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(39,13,3,1.51080000000000014281e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(40,14,1,1.89215999999999984204e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(41,14,2,1.73448,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(42,14,3,1.5768,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(43,15,1,2.04336,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(44,15,2,1.87308,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(45,15,3,1.70279999999999986926e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(46,16,1,1.64505464879144081002e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(47,16,2,1.50796676139215435341e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(48,16,3,1.37087887399286745271e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(49,17,1,1.62556347996689787294e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(50,17,2,1.49009985663632327224e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(51,17,3,1.35463623330574822745e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(52,18,1,1.6710428738908318369e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(53,18,2,1.53178930106659594301e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(54,18,3,1.39253572824235982707e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(55,19,1,1.781492830563243146e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(56,19,2,1.63303509468297303186e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(57,19,3,1.48457735880270269568e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(58,20,1,1.95691334998413157819e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(59,20,2,1.7938372374854540947e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(60,20,3,1.63076112498677638917e+00,'FINITE');
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
INSERT INTO "trial_params" VALUES(1,1,'lr',1.05973998414404368267e-02,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.0001, "high": 1.0, "log": true}}');
INSERT INTO "trial_params" VALUES(2,2,'lr',1.27239660466950637966e-03,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.0001, "high": 1.0, "log": true}}');
INSERT INTO "trial_params" VALUES(3,3,'lr',7.24144439370472299544e-03,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.0001, "high": 1.0, "log": true}}');
INSERT INTO "trial_params" VALUES(4,4,'lr',4.76845904284653662741e-02,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.0001, "high": 1.0, "log": true}}');
INSERT INTO "trial_params" VALUES(5,5,'lr',1.73454707891268246344e-02,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.0001, "high": 1.0, "log": true}}');
INSERT INTO "trial_params" VALUES(6,6,'lr',1.59184174427391862682e-03,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.0001, "high": 1.0, "log": true}}');
INSERT INTO "trial_params" VALUES(7,7,'lr',0.0702017009583007,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.0001, "high": 1.0, "log": true}}');
INSERT INTO "trial_params" VALUES(8,8,'lr',7.83676232334900636257e-04,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.0001, "high": 1.0, "log": true}}');
INSERT INTO "trial_params" VALUES(9,9,'lr',4.34883683028874645781e-02,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.0001, "high": 1.0, "log": true}}');
INSERT INTO "trial_params" VALUES(10,10,'lr',1.42767868195116942597e-01,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.0001, "high": 1.0, "log": true}}');
INSERT INTO "trial_params" VALUES(11,11,'lr',2.75232646603837602383e-02,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.0001, "high": 1.0, "log": true}}');
INSERT INTO "trial_params" VALUES(12,12,'lr',1.09398325697871679428e-04,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.0001, "high": 1.0, "log": true}}');
INSERT INTO "trial_params" VALUES(13,13,'lr',8.15354795459852343952e-01,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.0001, "high": 1.0, "log": true}}');
INSERT INTO "trial_params" VALUES(14,14,'lr',1.08923010914542057114e-04,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.0001, "high": 1.0, "log": true}}');
INSERT INTO "trial_params" VALUES(15,15,'lr',9.69182602663820169652e-01,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.0001, "high": 1.0, "log": true}}');
INSERT INTO "trial_params" VALUES(16,16,'lr',5.74860403949530307521e-01,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.0001, "high": 1.0, "log": true}}');
INSERT INTO "trial_params" VALUES(17,17,'lr',1.88941169515285473101e-01,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.0001, "high": 1.0, "log": true}}');
INSERT INTO "trial_params" VALUES(18,18,'lr',2.00944166954331593366e-01,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.0001, "high": 1.0, "log": true}}');
INSERT INTO "trial_params" VALUES(19,19,'lr',1.92124516542686890607e-01,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.0001, "high": 1.0, "log": true}}');
INSERT INTO "trial_params" VALUES(20,20,'lr',2.0415924914028818482e-01,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.0001, "high": 1.0, "log": true}}');
CREATE TABLE trial_system_attributes (
	trial_system_attribute_id INTEGER NOT NULL, 
	trial_id INTEGER, 
	"key" VARCHAR(512), 
	value_json TEXT, 
	PRIMARY KEY (trial_system_attribute_id), 
	UNIQUE (trial_id, "key"), 
	FOREIGN KEY(trial_id) REFERENCES trials (trial_id)
);
INSERT INTO "trial_system_attributes" VALUES(1,12,'tpe:relative_params:0','"{\"lr\": 0.00010939832569787168}"');
INSERT INTO "trial_system_attributes" VALUES(2,13,'tpe:relative_params:0','"{\"lr\": 0.8153547954598523}"');
INSERT INTO "trial_system_attributes" VALUES(3,14,'tpe:relative_params:0','"{\"lr\": 0.00010892301091454206}"');
INSERT INTO "trial_system_attributes" VALUES(4,15,'tpe:relative_params:0','"{\"lr\": 0.9691826026638202}"');
INSERT INTO "trial_system_attributes" VALUES(5,16,'tpe:relative_params:0','"{\"lr\": 0.5748604039495303}"');
INSERT INTO "trial_system_attributes" VALUES(6,17,'tpe:relative_params:0','"{\"lr\": 0.18894116951528547}"');
INSERT INTO "trial_system_attributes" VALUES(7,18,'tpe:relative_params:0','"{\"lr\": 0.2009441669543316}"');
INSERT INTO "trial_system_attributes" VALUES(8,19,'tpe:relative_params:0','"{\"lr\": 0.1921245165426869}"');
INSERT INTO "trial_system_attributes" VALUES(9,20,'tpe:relative_params:0','"{\"lr\": 0.20415924914028818}"');
CREATE TABLE trial_user_attributes (
	trial_user_attribute_id INTEGER NOT NULL, 
	trial_id INTEGER, 
	"key" VARCHAR(512), 
	value_json TEXT, 
	PRIMARY KEY (trial_user_attribute_id), 
	UNIQUE (trial_id, "key"), 
	FOREIGN KEY(trial_id) REFERENCES trials (trial_id)
);
INSERT INTO "trial_user_attributes" VALUES(1,1,'width','16');
INSERT INTO "trial_user_attributes" VALUES(2,2,'width','16');
INSERT INTO "trial_user_attributes" VALUES(3,3,'width','16');
INSERT INTO "trial_user_attributes" VALUES(4,4,'width','16');
INSERT INTO "trial_user_attributes" VALUES(5,5,'width','16');
INSERT INTO "trial_user_attributes" VALUES(6,6,'width','32');
INSERT INTO "trial_user_attributes" VALUES(7,7,'width','32');
INSERT INTO "trial_user_attributes" VALUES(8,8,'width','32');
INSERT INTO "trial_user_attributes" VALUES(9,9,'width','32');
INSERT INTO "trial_user_attributes" VALUES(10,10,'width','32');
INSERT INTO "trial_user_attributes" VALUES(11,11,'width','64');
INSERT INTO "trial_user_attributes" VALUES(12,12,'width','64');
INSERT INTO "trial_user_attributes" VALUES(13,13,'width','64');
INSERT INTO "trial_user_attributes" VALUES(14,14,'width','64');
INSERT INTO "trial_user_attributes" VALUES(15,15,'width','64');
INSERT INTO "trial_user_attributes" VALUES(16,16,'width','128');
INSERT INTO "trial_user_attributes" VALUES(17,17,'width','128');
INSERT INTO "trial_user_attributes" VALUES(18,18,'width','128');
INSERT INTO "trial_user_attributes" VALUES(19,19,'width','128');
INSERT INTO "trial_user_attributes" VALUES(20,20,'width','128');
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
INSERT INTO "trial_values" VALUES(1,1,0,2.1369,'FINITE');
INSERT INTO "trial_values" VALUES(2,2,0,2.0289,'FINITE');
INSERT INTO "trial_values" VALUES(3,3,0,2.0009,'FINITE');
INSERT INTO "trial_values" VALUES(4,4,0,2.0529,'FINITE');
INSERT INTO "trial_values" VALUES(5,5,0,2.1849,'FINITE');
INSERT INTO "trial_values" VALUES(6,6,0,1.80577755313913,'FINITE');
INSERT INTO "trial_values" VALUES(7,7,0,1.72383642764217559495e+00,'FINITE');
INSERT INTO "trial_values" VALUES(8,8,0,1.71017957339268322769e+00,'FINITE');
INSERT INTO "trial_values" VALUES(9,9,0,1.76480699039065291877e+00,'FINITE');
INSERT INTO "trial_values" VALUES(10,11,0,1.55879999999999974136e+00,'FINITE');
INSERT INTO "trial_values" VALUES(11,12,0,1.50480000000000013749e+00,'FINITE');
INSERT INTO "trial_values" VALUES(12,13,0,1.51080000000000014281e+00,'FINITE');
INSERT INTO "trial_values" VALUES(13,14,0,1.5768,'FINITE');
INSERT INTO "trial_values" VALUES(14,15,0,1.70279999999999986926e+00,'FINITE');
INSERT INTO "trial_values" VALUES(15,16,0,1.37087887399286745271e+00,'FINITE');
INSERT INTO "trial_values" VALUES(16,17,0,1.35463623330574822745e+00,'FINITE');
INSERT INTO "trial_values" VALUES(17,18,0,1.39253572824235982707e+00,'FINITE');
INSERT INTO "trial_values" VALUES(18,19,0,1.48457735880270269568e+00,'FINITE');
INSERT INTO "trial_values" VALUES(19,20,0,1.63076112498677638917e+00,'FINITE');
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
INSERT INTO "trials" VALUES(1,0,1,'PRUNED','2026-11-22 17:51:23.483339','2026-11-22 17:51:23.667668');
INSERT INTO "trials" VALUES(2,1,1,'COMPLETE','2026-11-22 17:51:23.697482','2026-11-22 17:51:23.830605');
INSERT INTO "trials" VALUES(3,2,1,'COMPLETE','2026-11-22 17:51:23.852716','2026-11-22 17:51:23.973701');
INSERT INTO "trials" VALUES(4,3,1,'COMPLETE','2026-11-22 17:51:24.001116','2026-11-22 17:51:24.130119');
INSERT INTO "trials" VALUES(5,4,1,'COMPLETE','2026-11-22 17:51:24.165605','2026-11-22 17:51:24.285741');
INSERT INTO "trials" VALUES(6,5,1,'COMPLETE','2026-11-22 17:51:24.317447','2026-11-22 17:51:24.453952');
INSERT INTO "trials" VALUES(7,6,1,'COMPLETE','2026-11-22 17:51:24.484237','2026-11-22 17:51:24.610342');
INSERT INTO "trials" VALUES(8,7,1,'COMPLETE','2026-11-22 17:51:24.641306','2026-11-22 17:51:24.781171');
INSERT INTO "trials" VALUES(9,8,1,'COMPLETE','2026-11-22 17:51:24.818633','2026-11-22 17:51:24.949689');
INSERT INTO "trials" VALUES(10,9,1,'FAIL','2026-11-22 17:51:24.977356','2026-11-22 17:51:25.109246');
INSERT INTO "trials" VALUES(11,10,1,'COMPLETE','2026-11-22 17:51:25.137000','2026-11-22 17:51:25.275922');
INSERT INTO "trials" VALUES(12,11,1,'COMPLETE','2026-11-22 17:51:25.297522','2026-11-22 17:51:25.498371');
INSERT INTO "trials" VALUES(13,12,1,'COMPLETE','2026-11-22 17:51:25.529290','2026-11-22 17:51:25.674275');
INSERT INTO "trials" VALUES(14,13,1,'COMPLETE','2026-11-22 17:51:25.708805','2026-11-22 17:51:25.849601');
INSERT INTO "trials" VALUES(15,14,1,'COMPLETE','2026-11-22 17:51:25.880745','2026-11-22 17:51:26.032787');
INSERT INTO "trials" VALUES(16,15,1,'COMPLETE','2026-11-22 17:51:26.065484','2026-11-22 17:51:26.226002');
INSERT INTO "trials" VALUES(17,16,1,'COMPLETE','2026-11-22 17:51:26.260717','2026-11-22 17:51:26.397148');
INSERT INTO "trials" VALUES(18,17,1,'COMPLETE','2026-11-22 17:51:26.418341','2026-11-22 17:51:26.597851');
INSERT INTO "trials" VALUES(19,18,1,'COMPLETE','2026-11-22 17:51:26.624450','2026-11-22 17:51:26.776811');
INSERT INTO "trials" VALUES(20,19,1,'COMPLETE','2026-11-22 17:51:26.803829','2026-11-22 17:51:26.953096');
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
