CREATE TABLE `api_keys` (
	`id` text PRIMARY KEY NOT NULL,
	`name` text,
	`tenant` text,
	`scopes` text NOT NULL,
	`hash` text NOT NULL,
	`created_at` integer NOT NULL,
	`expires_at` integer,
	`last_used_at` integer,
	`revoked_at` integer
);
--> statement-breakpoint
CREATE INDEX `api_keys_unrevoked` ON `api_keys` (`id`) WHERE revoked_at IS NULL;--> statement-breakpoint
CREATE INDEX `api_keys_by_tenant` ON `api_keys` (`tenant`,`id`) WHERE revoked_at IS NULL;
--> statement-breakpoint
CREATE TABLE `backlog_snapshots` (
	`at` integer PRIMARY KEY NOT NULL,
	`backlogs` text NOT NULL
);
--> statement-breakpoint
CREATE TABLE `bundles` (
	`id` integer PRIMARY KEY NOT NULL,
	`tokens` text NOT NULL,
	`accepted_at` integer NOT NULL,
	`deliver_at` integer,
	`count` integer NOT NULL,
	`planned` integer NOT NULL,
	`plan` text NOT NULL,
	`header` text NOT NULL,
	`body` blob NOT NULL
);
--> statement-breakpoint
CREATE INDEX `bundles_scheduled` ON `bundles` (`deliver_at`) WHERE deliver_at IS NOT NULL;--> statement-breakpoint
CREATE TABLE `counts` (
	`name` text PRIMARY KEY NOT NULL,
	`count` integer NOT NULL
);
--> statement-breakpoint
CREATE TABLE `cursors` (
	`name` text PRIMARY KEY NOT NULL,
	`at` integer NOT NULL,
	`row_id` integer NOT NULL
);
--> statement-breakpoint
CREATE TABLE `deliveries` (
	`destination_id` text NOT NULL,
	`event_id` integer NOT NULL,
	`state` text NOT NULL,
	`reason` text,
	`attempts` integer DEFAULT 0 NOT NULL,
	`next_attempt_at` integer,
	`generation` integer DEFAULT 0 NOT NULL,
	`first_attempt_at` integer,
	`give_up_at` integer NOT NULL,
	`ended_at` integer,
	`last_status` integer,
	`last_error` text,
	`replay` text,
	`log` text DEFAULT '[]' NOT NULL,
	PRIMARY KEY(`destination_id`, `event_id`)
) WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `deliveries_retrying` ON `deliveries` (`next_attempt_at`) WHERE state = 'retrying';--> statement-breakpoint
CREATE INDEX `deliveries_waiting` ON `deliveries` (`destination_id`,`event_id`,`attempts`) WHERE state = 'waiting';--> statement-breakpoint
CREATE INDEX `deliveries_dead` ON `deliveries` (`destination_id`,`event_id`) WHERE state = 'dead';--> statement-breakpoint
CREATE TABLE `destinations` (
	`id` text PRIMARY KEY NOT NULL,
	`tenant` text NOT NULL,
	`url` text NOT NULL,
	`event_types` text,
	`description` text,
	`metadata` text,
	`headers` text,
	`filter` text,
	`secret` text NOT NULL,
	`secret_version` integer DEFAULT 1 NOT NULL,
	`previous_secrets` text,
	`status` text DEFAULT 'active' NOT NULL,
	`status_reason` text,
	`status_changed_at` integer,
	`max_concurrency` integer DEFAULT 10 NOT NULL,
	`rate_per_second` real DEFAULT 100 NOT NULL,
	`rate_burst` integer,
	`timeout_ms` integer DEFAULT 15000 NOT NULL,
	`retry` text,
	`breaker_failure_ratio` real DEFAULT 0.5 NOT NULL,
	`breaker_min_attempts` integer DEFAULT 5 NOT NULL,
	`breaker_window_s` integer DEFAULT 60 NOT NULL,
	`breaker_cooldown_s` integer DEFAULT 30 NOT NULL,
	`breaker_max_cooldown_s` integer DEFAULT 45 NOT NULL,
	`created_at` integer NOT NULL,
	`updated_at` integer NOT NULL,
	`deleted_at` integer
);
--> statement-breakpoint
CREATE INDEX `destinations_by_tenant` ON `destinations` (`tenant`,`id`) WHERE deleted_at IS NULL;--> statement-breakpoint
CREATE INDEX `destinations_by_tenant_with_deleted` ON `destinations` (`tenant`,`id`);--> statement-breakpoint
CREATE INDEX `destinations_deleted` ON `destinations` (`deleted_at`) WHERE deleted_at IS NOT NULL;--> statement-breakpoint
CREATE TABLE `idempotency_keys` (
	`tenant` text NOT NULL,
	`key` text NOT NULL,
	`fingerprint` text NOT NULL,
	`bundles` text NOT NULL,
	`places` text NOT NULL,
	`created_at` integer NOT NULL,
	PRIMARY KEY(`tenant`, `key`)
) WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `mails` (
	`about` text PRIMARY KEY NOT NULL,
	`sent_at` integer NOT NULL
);
--> statement-breakpoint
CREATE TABLE `packs` (
	`destination_id` text NOT NULL,
	`bundle_id` integer NOT NULL,
	`waiting0` integer DEFAULT 0 NOT NULL,
	`waiting1` integer DEFAULT 0 NOT NULL,
	`in_flight0` integer DEFAULT 0 NOT NULL,
	`in_flight1` integer DEFAULT 0 NOT NULL,
	`delivered0` integer DEFAULT 0 NOT NULL,
	`delivered1` integer DEFAULT 0 NOT NULL,
	`cancelled0` integer DEFAULT 0 NOT NULL,
	`cancelled1` integer DEFAULT 0 NOT NULL,
	`reason` text,
	`next_attempt_at` integer,
	`recover_at` integer,
	`give_up_at` integer,
	`ended_at` integer,
	`ends` text DEFAULT '' NOT NULL,
	PRIMARY KEY(`destination_id`, `bundle_id`)
) WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `packs_waiting` ON `packs` (`destination_id`,`bundle_id`) WHERE (waiting0 | waiting1) <> 0;--> statement-breakpoint
CREATE INDEX `packs_in_flight` ON `packs` (`recover_at`) WHERE recover_at IS NOT NULL;--> statement-breakpoint
CREATE TABLE `replays` (
	`id` text PRIMARY KEY NOT NULL,
	`tenant` text NOT NULL,
	`destination_id` text NOT NULL,
	`include` text NOT NULL,
	`event_types` text,
	`since` integer NOT NULL,
	`until` integer NOT NULL,
	`rate_per_minute` integer NOT NULL,
	`state` text NOT NULL,
	`reason` text,
	`cursor` integer DEFAULT 0 NOT NULL,
	`total` integer DEFAULT 0 NOT NULL,
	`requeued` integer DEFAULT 0 NOT NULL,
	`delivered` integer DEFAULT 0 NOT NULL,
	`failed` integer DEFAULT 0 NOT NULL,
	`pace` real NOT NULL,
	`next_step_at` integer NOT NULL,
	`created_at` integer NOT NULL,
	`updated_at` integer NOT NULL,
	`ended_at` integer
);
--> statement-breakpoint
CREATE UNIQUE INDEX `replays_under_way` ON `replays` (`destination_id`) WHERE state IN ('running', 'paused');--> statement-breakpoint
CREATE INDEX `replays_by_tenant` ON `replays` (`tenant`);--> statement-breakpoint
CREATE INDEX `replays_by_destination` ON `replays` (`destination_id`);--> statement-breakpoint
CREATE TABLE `sessions` (
	`id` text PRIMARY KEY NOT NULL,
	`key_id` text,
	`tenant` text,
	`scopes` text NOT NULL,
	`created_at` integer NOT NULL,
	`expires_at` integer NOT NULL,
	`ended_at` integer
);
--> statement-breakpoint
CREATE INDEX `sessions_by_expiry` ON `sessions` (`expires_at`);--> statement-breakpoint
CREATE TABLE `status_changes` (
	`changed_at` integer NOT NULL,
	`destination_id` text NOT NULL,
	`status` text NOT NULL,
	`reason` text,
	`tenant` text NOT NULL,
	`url` text NOT NULL,
	PRIMARY KEY(`changed_at`, `destination_id`, `status`)
) WITHOUT ROWID;
--> statement-breakpoint
CREATE TRIGGER `destinations_status_changed` AFTER UPDATE OF `status_changed_at` ON `destinations`
WHEN new.status <> old.status
BEGIN
	INSERT OR IGNORE INTO status_changes (changed_at, destination_id, status, reason, tenant, url)
	VALUES (new.status_changed_at, new.id, new.status, new.status_reason, new.tenant, new.url);
END;
--> statement-breakpoint
CREATE TABLE `sweeps` (
	`id` integer PRIMARY KEY NOT NULL,
	`watermark` integer DEFAULT 0 NOT NULL,
	`heartbeat_at` integer NOT NULL,
	`lease` text,
	`leased_until` integer DEFAULT 0 NOT NULL,
	`page` integer DEFAULT 0 NOT NULL,
	`parts` text DEFAULT '{}' NOT NULL
);
--> statement-breakpoint
CREATE TABLE `tenants` (
	`id` text PRIMARY KEY NOT NULL,
	`revision` integer NOT NULL
) WITHOUT ROWID;
--> statement-breakpoint
CREATE TRIGGER `destinations_replaced` BEFORE INSERT ON `destinations` BEGIN
	INSERT INTO `tenants` (`id`, `revision`)
	SELECT `tenant`, CAST(unixepoch('subsec') * 1000 AS INTEGER) FROM `destinations` WHERE `id` = new.`id`
	ON CONFLICT (`id`) DO UPDATE SET `revision` = max(`revision` + 1, excluded.`revision`);
END;
--> statement-breakpoint
CREATE TRIGGER `destinations_added` AFTER INSERT ON `destinations` BEGIN
	INSERT INTO `tenants` (`id`, `revision`) VALUES (new.`tenant`, CAST(unixepoch('subsec') * 1000 AS INTEGER))
	ON CONFLICT (`id`) DO UPDATE SET `revision` = max(`revision` + 1, excluded.`revision`);
END;
--> statement-breakpoint
CREATE TRIGGER `destinations_changed` AFTER UPDATE OF `id`, `tenant`, `event_types`, `filter`, `deleted_at` ON `destinations` BEGIN
	INSERT INTO `tenants` (`id`, `revision`)
	VALUES (old.`tenant`, CAST(unixepoch('subsec') * 1000 AS INTEGER)), (new.`tenant`, CAST(unixepoch('subsec') * 1000 AS INTEGER))
	ON CONFLICT (`id`) DO UPDATE SET `revision` = max(`revision` + 1, excluded.`revision`);
END;
--> statement-breakpoint
CREATE TRIGGER `destinations_removed` AFTER DELETE ON `destinations` BEGIN
	INSERT INTO `tenants` (`id`, `revision`) VALUES (old.`tenant`, CAST(unixepoch('subsec') * 1000 AS INTEGER))
	ON CONFLICT (`id`) DO UPDATE SET `revision` = max(`revision` + 1, excluded.`revision`);
END;
--> statement-breakpoint
CREATE TRIGGER `deliveries_ended_in_pack` BEFORE INSERT ON `deliveries` WHEN new.`generation` = 0 AND EXISTS (
	SELECT 1 FROM `packs` WHERE `destination_id` = new.`destination_id` AND `bundle_id` = new.`event_id` / 128
		AND (((`delivered0` | `cancelled0`) & iif(new.`event_id` % 128 < 50, 1 << (new.`event_id` % 128), 0)) | ((`delivered1` | `cancelled1`) & iif(new.`event_id` % 128 < 50, 0, 1 << (new.`event_id` % 128 - 50)))) <> 0)
BEGIN
	SELECT RAISE(IGNORE);
END;
--> statement-breakpoint
CREATE TRIGGER `deliveries_out_of_pack` AFTER INSERT ON `deliveries` BEGIN
	UPDATE `packs` SET
		`waiting0` = `waiting0` & ~iif(new.`event_id` % 128 < 50, 1 << (new.`event_id` % 128), 0),
		`waiting1` = `waiting1` & ~iif(new.`event_id` % 128 < 50, 0, 1 << (new.`event_id` % 128 - 50)),
		`in_flight0` = `in_flight0` & ~iif(new.`event_id` % 128 < 50, 1 << (new.`event_id` % 128), 0),
		`in_flight1` = `in_flight1` & ~iif(new.`event_id` % 128 < 50, 0, 1 << (new.`event_id` % 128 - 50)),
		`delivered0` = `delivered0` & ~iif(new.`event_id` % 128 < 50, 1 << (new.`event_id` % 128), 0),
		`delivered1` = `delivered1` & ~iif(new.`event_id` % 128 < 50, 0, 1 << (new.`event_id` % 128 - 50)),
		`cancelled0` = `cancelled0` & ~iif(new.`event_id` % 128 < 50, 1 << (new.`event_id` % 128), 0),
		`cancelled1` = `cancelled1` & ~iif(new.`event_id` % 128 < 50, 0, 1 << (new.`event_id` % 128 - 50)),
		`recover_at` = iif(((`in_flight0` & ~iif(new.`event_id` % 128 < 50, 1 << (new.`event_id` % 128), 0)) | (`in_flight1` & ~iif(new.`event_id` % 128 < 50, 0, 1 << (new.`event_id` % 128 - 50)))) = 0, NULL, `recover_at`)
	WHERE `destination_id` = new.`destination_id` AND `bundle_id` = new.`event_id` / 128
		AND (((`waiting0` | `in_flight0` | `delivered0` | `cancelled0`) & iif(new.`event_id` % 128 < 50, 1 << (new.`event_id` % 128), 0)) | ((`waiting1` | `in_flight1` | `delivered1` | `cancelled1`) & iif(new.`event_id` % 128 < 50, 0, 1 << (new.`event_id` % 128 - 50)))) <> 0;
END;
--> statement-breakpoint
CREATE VIEW `events` AS
SELECT b.`id` * 128 + i.key / 3 AS `id`, b.`id` AS `bundle_id`,
	b.`header` ->> ('$.tenants[' || i.value || ']') AS `tenant`,
	b.`header` ->> ('$.types[' || (b.`header` ->> ('$.events[' || (i.key + 1) || ']')) || ']') AS `type`,
	b.`accepted_at`, b.`deliver_at`,
	(SELECT json_group_array(p.key) FROM json_each(b.`plan`) p WHERE EXISTS (
		SELECT 1 FROM json_each(p.value) r
		WHERE r.key % 2 = 0 AND i.key / 3 BETWEEN r.value AND p.value ->> (r.key + 1))) AS `plan`
FROM `bundles` b JOIN json_each(b.`header`, '$.events') i ON i.key % 3 = 0;
--> statement-breakpoint
CREATE VIEW `delivery_states` AS
WITH RECURSIVE `bits` (`i`, `low`, `high`) AS (
	SELECT 0, 1, 0 UNION ALL SELECT `i` + 1, iif(`i` < 49, `low` << 1, 0), iif(`i` = 49, 1, `high` << 1) FROM `bits` WHERE `i` < 99
)
SELECT `destination_id`, `event_id`, `state`, `reason`, `attempts`, `next_attempt_at`, `give_up_at`, `ended_at` FROM `deliveries`
UNION ALL
SELECT p.`destination_id`, p.`bundle_id` * 128 + b.`i`, 'waiting', p.`reason`, 0, p.`next_attempt_at`, p.`give_up_at`, NULL
FROM `packs` p JOIN `bits` b ON ((p.`waiting0` & b.`low`) | (p.`waiting1` & b.`high`)) <> 0 WHERE (p.`waiting0` | p.`waiting1`) <> 0
UNION ALL
SELECT p.`destination_id`, p.`bundle_id` * 128 + b.`i`, 'retrying', 'in_flight', 0, p.`recover_at`, p.`give_up_at`, NULL
FROM `packs` p JOIN `bits` b ON ((p.`in_flight0` & b.`low`) | (p.`in_flight1` & b.`high`)) <> 0
UNION ALL
SELECT p.`destination_id`, p.`bundle_id` * 128 + b.`i`, 'delivered', NULL, 1, NULL, NULL, p.`ended_at`
FROM `packs` p JOIN `bits` b ON ((p.`delivered0` & b.`low`) | (p.`delivered1` & b.`high`)) <> 0
UNION ALL
SELECT p.`destination_id`, p.`bundle_id` * 128 + b.`i`, 'cancelled', 'destination_deleted', 0, NULL, p.`give_up_at`, p.`ended_at`
FROM `packs` p JOIN `bits` b ON ((p.`cancelled0` & b.`low`) | (p.`cancelled1` & b.`high`)) <> 0;
