CREATE TABLE `lines` (
	`destination_id` text NOT NULL,
	`line` text NOT NULL,
	`event_id` integer NOT NULL,
	`give_up_at` integer NOT NULL,
	`holds` integer NOT NULL,
	PRIMARY KEY(`destination_id`, `line`, `event_id`)
) WITHOUT ROWID;
--> statement-breakpoint
ALTER TABLE `destinations` ADD `ordering` text;--> statement-breakpoint
ALTER TABLE `destinations` ADD `ordering_path` text;--> statement-breakpoint
ALTER TABLE `destinations` ADD `on_dead` text;
--> statement-breakpoint
CREATE TRIGGER `destinations_order_changed` AFTER UPDATE OF `ordering`, `ordering_path`, `on_dead`, `retry` ON `destinations`
WHEN coalesce(old.`ordering`, new.`ordering`) IS NOT NULL BEGIN
	INSERT INTO `tenants` (`id`, `revision`) VALUES (new.`tenant`, CAST(unixepoch('subsec') * 1000 AS INTEGER))
	ON CONFLICT (`id`) DO UPDATE SET `revision` = max(`revision` + 1, excluded.`revision`);
END;
--> statement-breakpoint
CREATE TRIGGER `bundles_lined` AFTER INSERT ON `bundles` WHEN new.`header` -> '$.lines' IS NOT NULL BEGIN
	INSERT INTO `lines` (`destination_id`, `line`, `event_id`, `give_up_at`, `holds`)
	SELECT d.key, l.value ->> 0, new.`id` * 128 + i.value, l.value ->> 1, l.value ->> 2
	FROM json_each(new.`header`, '$.lines') d CROSS JOIN json_each(d.value) l CROSS JOIN json_each(l.value) i
	WHERE i.key > 2;
END;
--> statement-breakpoint
CREATE TRIGGER `bundles_unlined` AFTER DELETE ON `bundles`
WHEN iif(json_valid(old.`header`), json_type(old.`header`, '$.lines'), NULL) = 'object' BEGIN
	DELETE FROM `lines` WHERE (`destination_id`, `line`) IN (
		SELECT d.key, l.value ->> 0 FROM json_each(old.`header`, '$.lines') d CROSS JOIN json_each(d.value) l)
		AND `event_id` >= old.`id` * 128 AND `event_id` < old.`id` * 128 + 128;
END;
--> statement-breakpoint
CREATE TRIGGER `deliveries_inserted_leave_line` AFTER INSERT ON `deliveries`
WHEN new.`state` IN ('delivered', 'dead', 'cancelled') AND EXISTS (
	SELECT 1 FROM `lines` WHERE `destination_id` = new.`destination_id`)
BEGIN
	DELETE FROM `lines` WHERE `destination_id` = new.`destination_id` AND `event_id` = new.`event_id`
		AND (new.`state` <> 'dead' OR `holds` = 0) AND `line` IN (
		SELECT l.value ->> 0 FROM `bundles` b
			CROSS JOIN json_each(iif(json_valid(b.`header`), b.`header`, '{}'), '$.lines.' || new.`destination_id`) l
		WHERE b.`id` = new.`event_id` / 128);
END;
--> statement-breakpoint
CREATE TRIGGER `deliveries_leave_line` AFTER UPDATE OF `state` ON `deliveries`
WHEN new.`state` IN ('delivered', 'dead', 'cancelled') AND EXISTS (
	SELECT 1 FROM `lines` WHERE `destination_id` = new.`destination_id`)
BEGIN
	DELETE FROM `lines` WHERE `destination_id` = new.`destination_id` AND `event_id` = new.`event_id`
		AND (new.`state` <> 'dead' OR `holds` = 0) AND `line` IN (
		SELECT l.value ->> 0 FROM `bundles` b
			CROSS JOIN json_each(iif(json_valid(b.`header`), b.`header`, '{}'), '$.lines.' || new.`destination_id`) l
		WHERE b.`id` = new.`event_id` / 128);
END;
--> statement-breakpoint
CREATE TRIGGER `packs_inserted_leave_line` AFTER INSERT ON `packs`
WHEN ((new.`delivered0` | new.`cancelled0`) | (new.`delivered1` | new.`cancelled1`)) <> 0 AND EXISTS (
	SELECT 1 FROM `lines` WHERE `destination_id` = new.`destination_id`)
BEGIN
	DELETE FROM `lines` WHERE `destination_id` = new.`destination_id`
		AND `event_id` >= new.`bundle_id` * 128 AND `event_id` < new.`bundle_id` * 128 + 128
		AND (((new.`delivered0` | new.`cancelled0`) & iif(`event_id` % 128 < 50, 1 << (`event_id` % 128), 0)) | ((new.`delivered1` | new.`cancelled1`) & iif(`event_id` % 128 < 50, 0, 1 << (`event_id` % 128 - 50)))) <> 0
		AND `line` IN (
		SELECT l.value ->> 0 FROM `bundles` b
			CROSS JOIN json_each(iif(json_valid(b.`header`), b.`header`, '{}'), '$.lines.' || new.`destination_id`) l
		WHERE b.`id` = new.`bundle_id`);
END;
--> statement-breakpoint
CREATE TRIGGER `packs_leave_line` AFTER UPDATE OF `delivered0`, `delivered1`, `cancelled0`, `cancelled1` ON `packs`
WHEN (((new.`delivered0` | new.`cancelled0`) & ~(old.`delivered0` | old.`cancelled0`)) | ((new.`delivered1` | new.`cancelled1`) & ~(old.`delivered1` | old.`cancelled1`))) <> 0 AND EXISTS (
	SELECT 1 FROM `lines` WHERE `destination_id` = new.`destination_id`)
BEGIN
	DELETE FROM `lines` WHERE `destination_id` = new.`destination_id`
		AND `event_id` >= new.`bundle_id` * 128 AND `event_id` < new.`bundle_id` * 128 + 128
		AND (((new.`delivered0` | new.`cancelled0`) & iif(`event_id` % 128 < 50, 1 << (`event_id` % 128), 0)) | ((new.`delivered1` | new.`cancelled1`) & iif(`event_id` % 128 < 50, 0, 1 << (`event_id` % 128 - 50)))) <> 0
		AND `line` IN (
		SELECT l.value ->> 0 FROM `bundles` b
			CROSS JOIN json_each(iif(json_valid(b.`header`), b.`header`, '{}'), '$.lines.' || new.`destination_id`) l
		WHERE b.`id` = new.`bundle_id`);
END;
--> statement-breakpoint
CREATE TRIGGER `lines_move_up` AFTER DELETE ON `lines` BEGIN
	INSERT INTO `deliveries` (`destination_id`, `event_id`, `state`, `reason`, `give_up_at`)
	SELECT n.`destination_id`, n.`event_id`, 'waiting', 'order', n.`give_up_at` FROM `lines` n
	WHERE n.`destination_id` = old.`destination_id` AND n.`line` = old.`line` AND n.`event_id` = (
			SELECT min(`event_id`) FROM `lines` WHERE `destination_id` = old.`destination_id` AND `line` = old.`line`)
		AND n.`event_id` > old.`event_id` AND NOT EXISTS (
			SELECT 1 FROM `packs` p WHERE p.`destination_id` = n.`destination_id` AND p.`bundle_id` = n.`event_id` / 128
				AND (((p.`waiting0` | p.`in_flight0` | p.`delivered0` | p.`cancelled0`) & iif(n.`event_id` % 128 < 50, 1 << (n.`event_id` % 128), 0)) | ((p.`waiting1` | p.`in_flight1` | p.`delivered1` | p.`cancelled1`) & iif(n.`event_id` % 128 < 50, 0, 1 << (n.`event_id` % 128 - 50)))) <> 0)
	ON CONFLICT DO NOTHING;
END;
