CREATE TABLE `event_type_versions` (
	`type` text NOT NULL,
	`version` integer NOT NULL,
	`schema` text,
	`example` text,
	`conversions` text NOT NULL,
	`published_at` integer NOT NULL,
	`deprecated_at` integer,
	`sunset_at` integer,
	PRIMARY KEY(`type`, `version`)
) WITHOUT ROWID;
--> statement-breakpoint
ALTER TABLE `event_types` ADD `version` integer DEFAULT 1 NOT NULL;--> statement-breakpoint
ALTER TABLE `event_types` ADD `version_at` integer DEFAULT 0 NOT NULL;--> statement-breakpoint
CREATE INDEX `event_types_posted` ON `event_types` (`name`) WHERE validates = 1 OR version > 1;--> statement-breakpoint
ALTER TABLE `destinations` ADD `event_versions` text;
--> statement-breakpoint
DROP TRIGGER `event_types_added`;
--> statement-breakpoint
CREATE TRIGGER `event_types_added` AFTER INSERT ON `event_types` WHEN new.`validates` = 1 OR new.`version` > 1 BEGIN
	INSERT INTO `tenants` (`id`, `revision`) VALUES ('', CAST(unixepoch('subsec') * 1000 AS INTEGER))
	ON CONFLICT (`id`) DO UPDATE SET `revision` = max(`revision` + 1, excluded.`revision`);
END;
--> statement-breakpoint
DROP TRIGGER `event_types_removed`;
--> statement-breakpoint
CREATE TRIGGER `event_types_removed` AFTER DELETE ON `event_types` WHEN old.`validates` = 1 OR old.`version` > 1 BEGIN
	INSERT INTO `tenants` (`id`, `revision`) VALUES ('', CAST(unixepoch('subsec') * 1000 AS INTEGER))
	ON CONFLICT (`id`) DO UPDATE SET `revision` = max(`revision` + 1, excluded.`revision`);
END;
--> statement-breakpoint
CREATE TRIGGER `event_types_versioned` AFTER UPDATE OF `version`, `version_at` ON `event_types` BEGIN
	INSERT INTO `tenants` (`id`, `revision`) VALUES ('', CAST(unixepoch('subsec') * 1000 AS INTEGER))
	ON CONFLICT (`id`) DO UPDATE SET `revision` = max(`revision` + 1, excluded.`revision`);
END;
