ALTER TABLE `destinations` ADD `body` text DEFAULT 'envelope' NOT NULL;--> statement-breakpoint
ALTER TABLE `destinations` ADD `signature_forms` text;
--> statement-breakpoint
DROP TRIGGER `destinations_changed`;
--> statement-breakpoint
CREATE TRIGGER `destinations_changed` AFTER UPDATE OF `id`, `tenant`, `event_types`, `filter`, `body`, `deleted_at` ON `destinations` BEGIN
	INSERT INTO `tenants` (`id`, `revision`)
	VALUES (old.`tenant`, CAST(unixepoch('subsec') * 1000 AS INTEGER)), (new.`tenant`, CAST(unixepoch('subsec') * 1000 AS INTEGER))
	ON CONFLICT (`id`) DO UPDATE SET `revision` = max(`revision` + 1, excluded.`revision`);
END;
