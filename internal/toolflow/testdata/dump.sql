-- MySQL dump 10.13  Distrib 8.0.36, for Linux (x86_64)
/*!40101 SET NAMES utf8mb4 */;
DROP TABLE IF EXISTS `gateway_tool`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
CREATE TABLE `gateway_tool` (
  `id` varchar(64) NOT NULL,
  `tenant_id` varchar(64) DEFAULT NULL,
  `name` varchar(128) NOT NULL,
  `description` longtext NOT NULL,
  `created_by` varchar(128) DEFAULT NULL,
  `updated_by` varchar(128) DEFAULT NULL,
  `created_at` datetime(6) NOT NULL,
  `updated_at` datetime(6) NOT NULL,
  PRIMARY KEY (`id`),
  UNIQUE KEY `name` (`name`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;
LOCK TABLES `gateway_tool` WRITE;
INSERT INTO `gateway_tool` VALUES ('double',NULL,'Double','Doubles; a \'number\'',NULL,NULL,'2026-03-01 10:00:00.000000','2026-03-01 10:00:00.000000'),('greet me',NULL,'Greet','Greets.','ann','ann','2026-03-01 10:00:00.000000','2026-03-01 10:00:00.000000'),('empty',NULL,'Empty','',NULL,NULL,'2026-03-01 10:00:00.000000','2026-03-01 10:00:00.000000');
UNLOCK TABLES;
CREATE TABLE `gateway_toolversion` (
  `id` char(32) NOT NULL,
  `version` int unsigned NOT NULL,
  `code` longtext NOT NULL,
  `entry_point` varchar(64) NOT NULL,
  `config` json NOT NULL,
  `schema` json NOT NULL,
  `message` varchar(255) NOT NULL,
  `status` varchar(16) NOT NULL,
  `metadata` json NOT NULL,
  `created_at` datetime(6) NOT NULL,
  `tool_id` varchar(64) NOT NULL,
  PRIMARY KEY (`id`),
  UNIQUE KEY `uniq_tool_version` (`tool_id`,`version`),
  CONSTRAINT `gateway_toolversion_chk_1` CHECK ((`version` >= 0))
) ENGINE=InnoDB;
INSERT INTO `gateway_toolversion` VALUES ('00000000000000000000000000000001',1,'def main(args):\n    return {\"result\": args[\"x\"] + args[\"x\"]}\n','main','{}','{\"type\": \"object\", \"properties\": {\"x\": {\"type\": \"number\"}}, \"required\": [\"x\"]}','first','deprecated','{}','2026-03-01 10:00:00.000000','double'),('00000000000000000000000000000002',2,'def main(args):\n    return {\"result\": args[\"x\"] * 2}\n','main','{}','{\"type\": \"object\", \"properties\": {\"x\": {\"type\": \"number\"}}, \"required\": [\"x\"]}','faster','active','{}','2026-03-02 10:00:00.000000','double'),('00000000000000000000000000000003',3,'def main(args:\n','main','{}','{}','broken','draft','{}','2026-03-03 10:00:00.000000','double');
INSERT INTO `gateway_toolversion` (`id`,`version`,`code`,`entry_point`,`config`,`schema`,`message`,`status`,`metadata`,`created_at`,`tool_id`) VALUES ('00000000000000000000000000000004',1,'def hello(args, context):\n    return \"Hello, \" + args.get(\"who\", \"you\") + context[\"config\"][\"mark\"]\n','hello','{\"mark\": \"!\"}','{}','','draft','{}','2026-03-01 10:00:00.000000','greet me');
CREATE TABLE `gateway_toolrelease` (
  `id` bigint NOT NULL AUTO_INCREMENT,
  `updated_at` datetime(6) NOT NULL,
  `prod_version_id` char(32) DEFAULT NULL,
  `test_version_id` char(32) DEFAULT NULL,
  `tool_id` varchar(64) NOT NULL,
  PRIMARY KEY (`id`)
) ENGINE=InnoDB;
INSERT INTO `gateway_toolrelease` VALUES (1,'2026-03-02 10:00:00.000000','00000000000000000000000000000002','00000000000000000000000000000003','double'),(2,'2026-03-02 10:00:00.000000',NULL,'00000000000000000000000000000004','greet me');
CREATE TABLE `gateway_execution` (
  `id` char(32) NOT NULL,
  `tenant_id` varchar(64) DEFAULT NULL,
  `executor` varchar(64) DEFAULT NULL,
  `status` varchar(16) NOT NULL,
  `input` json NOT NULL,
  `output` json NOT NULL,
  `error` longtext,
  `duration_ms` int DEFAULT NULL,
  `metadata` json NOT NULL,
  `created_at` datetime(6) NOT NULL,
  `updated_at` datetime(6) NOT NULL,
  `tool_id` varchar(64) NOT NULL,
  `version_id` char(32) NOT NULL,
  PRIMARY KEY (`id`)
) ENGINE=InnoDB;
INSERT INTO `gateway_execution` VALUES ('000000000000000000000000000000e1',NULL,'node-test-1','success','{\"x\": 21}','{\"result\": 42}',NULL,12,'{\"trigger\": \"admin_test_run\", \"target_env\": \"test\"}','2026-03-02 11:00:00.000000','2026-03-02 11:00:01.000000','double','00000000000000000000000000000002'),('000000000000000000000000000000e2',NULL,'node-test-1','success','{\"x\": 1}','{\"result\": 3}',NULL,12,'{\"trigger\": \"admin_test_run\", \"target_env\": \"test\"}','2026-03-02 12:00:00.000000','2026-03-02 12:00:01.000000','double','00000000000000000000000000000002'),('000000000000000000000000000000e3',NULL,'node-prod-1','success','{\"x\": 2}','{\"result\": 4}',NULL,12,'{\"trigger\": \"mcp_tools_call\", \"target_env\": \"prod\"}','2026-03-02 12:00:00.000000','2026-03-02 12:00:01.000000','double','00000000000000000000000000000002'),('000000000000000000000000000000e4',NULL,NULL,'error','{\"x\": 2}','{}','it\\broke',NULL,'{\"trigger\": \"admin_test_run\"}','2026-03-02 12:00:00.000000','2026-03-02 12:00:01.000000','double','00000000000000000000000000000002');
CREATE TABLE `auth_user` (`id` int NOT NULL, `picture` blob) ENGINE=InnoDB;
INSERT INTO `auth_user` VALUES (1,0x89504E47),(2,_binary 'a\0b'),(3,NULL);
-- Dump completed on 2026-03-04  0:00:00
