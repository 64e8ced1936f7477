CREATE TABLE `notices` (
	`destination_id` text PRIMARY KEY NOT NULL,
	`notified` text DEFAULT '[]' NOT NULL,
	`opened_at` integer,
	`dead_at` integer,
	`disabled_at` integer,
	`sent_at` integer DEFAULT 0 NOT NULL,
	`failures` integer DEFAULT 0 NOT NULL,
	`fault` text,
	`revision` integer DEFAULT 0 NOT NULL,
	`next_step_at` integer NOT NULL
) WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `notices_due` ON `notices` (`next_step_at`);--> statement-breakpoint
ALTER TABLE `destinations` ADD `notice_channel` text;--> statement-breakpoint
ALTER TABLE `destinations` ADD `notice_target` text;--> statement-breakpoint
CREATE TRIGGER `destinations_disabled` AFTER UPDATE OF `status_changed_at` ON `destinations`
WHEN new.`notice_channel` IS NOT NULL AND new.`status` = 'paused' AND old.`status` <> 'paused'
	AND new.`status_reason` IN ('gone', 'rejecting', 'failing')
	AND EXISTS (SELECT 1 FROM json_each(iif(json_valid(new.`notice_channel`), new.`notice_channel`, '{}'), '$.on') WHERE value = 'disabled')
BEGIN
	INSERT INTO `notices` (`destination_id`, `disabled_at`, `next_step_at`)
	VALUES (new.`id`, new.`status_changed_at`, new.`status_changed_at`)
	ON CONFLICT (`destination_id`) DO UPDATE SET `disabled_at` = excluded.`disabled_at`, `revision` = `revision` + 1,
		`next_step_at` = min(`next_step_at`, excluded.`next_step_at`);
END;
