CREATE TABLE `transforms` (
	`destination_id` text NOT NULL,
	`version` integer NOT NULL,
	`transform` text NOT NULL,
	PRIMARY KEY(`destination_id`, `version`)
) WITHOUT ROWID;
--> statement-breakpoint
ALTER TABLE `destinations` ADD `transform` text;
--> statement-breakpoint
CREATE TRIGGER `destinations_transform_changed` AFTER UPDATE OF `transform` ON `destinations`
WHEN iif(json_valid(old.`transform`), old.`transform` ->> '$.version', NULL) IS NOT NULL
	AND iif(json_valid(new.`transform`), new.`transform` ->> '$.version', 0) > (old.`transform` ->> '$.version') BEGIN
	INSERT INTO `transforms` (`destination_id`, `version`, `transform`)
	VALUES (old.`id`, old.`transform` ->> '$.version', old.`transform`) ON CONFLICT DO NOTHING;
	DELETE FROM `transforms` WHERE `destination_id` = old.`id` AND `version` <= (old.`transform` ->> '$.version') - 100;
END;
--> statement-breakpoint
CREATE TRIGGER `destinations_deleted_transforms` AFTER UPDATE OF `deleted_at` ON `destinations`
WHEN new.`deleted_at` IS NOT NULL BEGIN
	DELETE FROM `transforms` WHERE `destination_id` = new.`id`;
END;
