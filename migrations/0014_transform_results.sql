CREATE TABLE `transform_results` (
	`event_id` integer NOT NULL,
	`destination_id` text NOT NULL,
	`version` integer NOT NULL,
	`made` text,
	`fault` text,
	PRIMARY KEY(`event_id`, `destination_id`)
) WITHOUT ROWID;
--> statement-breakpoint
ALTER TABLE `tenant_settings` ADD `functions_off` integer DEFAULT 0 NOT NULL;
--> statement-breakpoint
CREATE TRIGGER `bundles_erased_results` AFTER UPDATE OF `header` ON `bundles`
WHEN iif(json_valid(new.`header`), json_type(new.`header`, '$.erased'), NULL) = 'array' BEGIN
	DELETE FROM `transform_results` WHERE `event_id` >= new.`id` * 128 AND `event_id` < new.`id` * 128 + 128
		AND EXISTS (SELECT 1 FROM json_each(new.`header`, '$.erased') run WHERE run.key % 2 = 0
			AND `event_id` % 128 BETWEEN run.value AND (new.`header` ->> ('$.erased[' || (run.key + 1) || ']')));
END;
