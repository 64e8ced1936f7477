//! The story, told by the Rust SDK. javascript/story.ts tells the same, step by step.

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    error::Error,
    fmt::Debug,
    future::Future,
    sync::LazyLock,
    time::{Duration, Instant},
};

use chrono::{TimeDelta, Utc};
use http::{HeaderMap, HeaderName, HeaderValue};
use js_option::JsOption;
use serde::Deserialize;
use serde_json::{json, Value};
use svix::{
    api::{
        ApplicationListOptions, EndpointGetStatsOptions, EndpointListOptions, EventTypeDeleteOptions,
        EventTypeListOptions, MessageAttemptListByEndpointOptions, MessageGetOptions, MessageListOptions,
        Svix, SvixOptions,
    },
    models::{
        AppPortalAccessIn, ApplicationIn, ApplicationPatch, BackgroundTaskType, EndpointHeadersIn,
        EndpointHeadersPatchIn, EndpointIn, EndpointPatch, EndpointSecretRotateIn, EndpointUpsertIn,
        EventExampleIn, EventTypeImportOpenApiIn, EventTypeIn, EventTypePatch, EventTypeUpsertIn,
        MessageAttemptOut, MessageIn, MessagePrecheckIn, MessageStatus, OperationalWebhookEndpointIn,
        RecoverIn,
    },
    Webhook,
};

type Result<T = (), E = Box<dyn Error>> = std::result::Result<T, E>;

static RECEIVER: LazyLock<String> = LazyLock::new(|| variable("RECEIVER_URL"));
static RUN: LazyLock<String> = LazyLock::new(|| variable("RUN"));

const OTHER_SECRET: &str = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let svix = connect(variable("BREAKWATER_KEY"));
    let story = Story {
        svix: &svix,
        // Every character that a uid may have.
        app: own("-ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz.0123456789"),
        order_paid: own(".order.paid"),
        payload: json!({ "total": 12.5, "note": "Grüße 👋" }),
    };
    step("health", async { Ok(svix.health().get().await?) }).await;
    story.applications().await;
    story.event_types().await;
    story.endpoints().await;
    story.messages().await;
    story.channels().await;
    story.secrets().await;
    story.attempts().await;
    story.services().await;
    story.errors().await;
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("{name} is not set"))
}

/// A name of this run.
fn own(name: &str) -> String {
    format!("{}{name}", *RUN)
}

fn connect(token: String) -> Svix {
    let server_url = Some(variable("BREAKWATER_URL"));
    Svix::new(token, Some(SvixOptions { server_url, ..Default::default() }))
}

/// Runs the step and prints its outcome.
async fn step(name: &str, run: impl Future<Output = Result>) {
    let (outcome, detail) = match run.await {
        Ok(()) => ("passed", String::new()),
        Err(error) if status_of(error.downcast_ref()) == 501 => ("unsupported", error.to_string()),
        Err(error) => ("failed", error.to_string()),
    };
    println!("{}", json!({ "step": name, "outcome": outcome, "detail": detail }));
}

/// The status of what the SDK returns; 0 for what is no answer of the API.
fn status_of(error: Option<&svix::Error>) -> u16 {
    match error {
        Some(svix::Error::Http(answer)) => answer.status.as_u16(),
        Some(svix::Error::Validation(answer)) => answer.status.as_u16(),
        _ => 0,
    }
}

fn equal<T: Debug + PartialEq<U>, U: Debug>(actual: T, expected: U) -> Result {
    if actual == expected {
        return Ok(());
    }
    Err(format!("expected {expected:?}, got {actual:?}").into())
}

/// The error, which must be an answer with the status.
fn refused<T: Debug>(result: svix::Result<T>, status: u16) -> Result<svix::Error> {
    let error = result.expect_err("expected an error");
    equal(status_of(Some(&error)), status)?;
    Ok(error)
}

/// Code and detail of an error.
fn said(error: svix::Error) -> Result<(String, String)> {
    match error {
        svix::Error::Http(answer) => {
            let body = answer.payload.ok_or("it has no body that the SDK can read")?;
            Ok((body.code, body.detail))
        }
        other => Err(other.into()),
    }
}

#[derive(Debug, Deserialize)]
struct Request {
    headers: BTreeMap<String, String>,
    body: String,
}

fn url_of(path: &str) -> String {
    format!("{}/{}/{path}", *RECEIVER, *RUN)
}

/// The requests that have come to the path, once there are so many.
fn arrived(path: &str, count: usize) -> Result<Vec<Request>> {
    let url = format!("{}/received?path=/{}/{path}&count={count}", *RECEIVER, *RUN);
    Ok(ureq::get(url).call()?.body_mut().read_json()?)
}

fn is_verified(secret: &str, body: &str, headers: &HeaderMap) -> Result<bool> {
    Ok(Webhook::new(secret)?.verify(body.as_bytes(), headers).is_ok())
}

fn headers_of(request: &Request, prefix: &str) -> Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    for (name, value) in request.headers.iter().filter(|(name, _)| name.starts_with(prefix)) {
        headers.insert(name.parse::<HeaderName>()?, value.parse::<HeaderValue>()?);
    }
    Ok(headers)
}

fn set(values: &[&str]) -> BTreeSet<String> {
    values.iter().map(|value| value.to_string()).collect()
}

fn map(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
    entries.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
}

/// All entries of a list, page by page. The call has the iterator of the page in the variable that is named.
macro_rules! all_pages {
    ($iterator:ident, $list:expr) => {{
        let mut found = Vec::new();
        let mut $iterator = None;
        loop {
            let page = $list.await?;
            found.extend(page.data);
            if page.done {
                break found;
            }
            $iterator = page.iterator;
        }
    }};
}

fn count<T: PartialEq>(values: &[T], value: T) -> usize {
    values.iter().filter(|each| **each == value).count()
}

fn endpoint_of(uid: &str, types: &[&str]) -> EndpointIn {
    let event_types = (!types.is_empty()).then(|| set(types));
    EndpointIn { uid: Some(uid.into()), event_types, ..EndpointIn::new(url_of(uid)) }
}

struct Story<'a> {
    svix: &'a Svix,
    app: String,
    order_paid: String,
    payload: Value,
}

impl Story<'_> {
    fn app(&self) -> String {
        self.app.clone()
    }

    fn application_in(&self, name: &str, uid: String) -> ApplicationIn {
        ApplicationIn { uid: Some(uid), ..ApplicationIn::new(name.into()) }
    }

    async fn applications(&self) {
        let applications = self.svix.application();
        let name = format!("{:x<256}", *RUN);

        step("application: create", async {
            let input = self.application_in(&name, self.app());
            let made = applications.create(input, None).await?;
            equal(made.uid, Some(self.app()))?;
            equal((made.name, made.metadata), (name.clone(), map(&[])))
        })
        .await;
        step("application: get or create", async {
            let input = self.application_in(&name, self.app());
            let found = applications.get_or_create(input, None).await?;
            equal(found.id, applications.get(self.app()).await?.id)
        })
        .await;
        step("application: list in pages", async {
            for uid in [own("-1"), own("-2")] {
                applications.create(self.application_in(&uid, uid.clone()), None).await?;
            }
            let found = all_pages!(iterator, {
                let options = ApplicationListOptions { limit: Some(2), iterator, ..Default::default() };
                applications.list(Some(options))
            });
            let uids: Vec<_> = found.into_iter().filter_map(|each| each.uid).collect();
            let counts = [self.app(), own("-1"), own("-2")].map(|uid| count(&uids, uid));
            equal(counts, [1, 1, 1])
        })
        .await;
        step("application: get by id and uid", async {
            let found = applications.get(self.app()).await?;
            equal(applications.get(found.id.clone()).await?, found)
        })
        .await;
        step("application: update", async {
            let mut input = self.application_in("Updated", self.app());
            input.metadata = Some(map(&[("a", "b")]));
            let updated = applications.upsert(self.app(), input).await?;
            equal((updated.name.as_str(), updated.uid), ("Updated", Some(self.app())))?;
            equal(updated.metadata, map(&[("a", "b")]))
        })
        .await;
        step("application: patch", async {
            let change = ApplicationPatch { name: Some("Patched".into()), ..Default::default() };
            let patched = applications.patch(self.app(), change).await?;
            equal((patched.name.as_str(), patched.uid), ("Patched", Some(self.app())))?;
            equal(patched.metadata, map(&[("a", "b")]))
        })
        .await;
        step("application: delete", async {
            applications.delete(own("-1")).await?;
            refused(applications.get(own("-1")).await, 404)?;
            Ok(())
        })
        .await;
    }

    async fn event_types(&self) {
        let event_types = self.svix.event_type();
        let name = || self.order_paid.clone();
        let schemas = Some(json!({ "1": { "type": "object", "examples": [{ "total": 1 }] } }));

        step("event type: create", async {
            let mut input = EventTypeIn::new(name(), "Paid".into());
            input.schemas = schemas.clone();
            let made = event_types.create(input, None).await?;
            equal((made.name, made.description.as_str()), (name(), "Paid"))?;
            equal(made.schemas, schemas.clone())
        })
        .await;
        step("event type: list in pages", async {
            for each in [own(".1"), own(".2")] {
                event_types.create(EventTypeIn::new(each, String::new()), None).await?;
            }
            let found = all_pages!(iterator, {
                let options = EventTypeListOptions { limit: Some(2), iterator, ..Default::default() };
                event_types.list(Some(options))
            });
            let names: Vec<_> = found.into_iter().map(|each| each.name).collect();
            let counts = [name(), own(".1"), own(".2")].map(|each| count(&names, each));
            equal(counts, [1, 1, 1])
        })
        .await;
        step("event type: get", async {
            let found = event_types.get(name()).await?;
            equal((found.name, found.archived), (name(), Some(false)))?;
            equal(found.schemas, schemas.clone())
        })
        .await;
        step("event type: update", async {
            let mut input = EventTypeUpsertIn::new("Updated".into());
            input.schemas = schemas.clone();
            let updated = event_types.upsert(name(), input).await?;
            equal((updated.description.as_str(), updated.schemas), ("Updated", schemas.clone()))
        })
        .await;
        step("event type: patch", async {
            let change = EventTypePatch { description: Some("Patched".into()), ..Default::default() };
            let patched = event_types.patch(name(), change).await?;
            equal((patched.description.as_str(), patched.schemas), ("Patched", schemas.clone()))
        })
        .await;
        step("event type: archive and delete", async {
            event_types.delete(own(".1"), None).await?;
            equal(event_types.get(own(".1")).await?.archived, Some(true))?;
            let options = EventTypeDeleteOptions { expunge: Some(true) };
            event_types.delete(own(".1"), Some(options)).await?;
            refused(event_types.get(own(".1")).await, 404)?;
            Ok(())
        })
        .await;
    }

    async fn endpoints(&self) {
        let endpoints = self.svix.endpoint();

        step("endpoint: create", async {
            let input = EndpointIn {
                description: Some("Orders".into()),
                metadata: Some(map(&[("a", "b")])),
                headers: Some(map(&[("x-one", "1")])),
                ..endpoint_of("orders", &[&self.order_paid])
            };
            let made = endpoints.create(self.app(), input, None).await?;
            equal((made.uid, made.description.as_str()), (Some("orders".into()), "Orders"))?;
            equal((made.url, made.metadata), (url_of("orders"), map(&[("a", "b")])))?;
            equal(made.event_types, Some(set(&[&self.order_paid])))
        })
        .await;
        step("endpoint: list in pages", async {
            for uid in ["second", "third"] {
                endpoints.create(self.app(), endpoint_of(uid, &["none"]), None).await?;
            }
            let found = all_pages!(iterator, {
                let options = EndpointListOptions { limit: Some(2), iterator, ..Default::default() };
                endpoints.list(self.app(), Some(options))
            });
            let mut uids: Vec<_> = found.into_iter().filter_map(|each| each.uid).collect();
            uids.sort();
            equal(uids, ["orders", "second", "third"])
        })
        .await;
        step("endpoint: get by id and uid", async {
            let found = endpoints.get(self.app(), "orders".into()).await?;
            equal(endpoints.get(self.app(), found.id.clone()).await?, found)
        })
        .await;
        step("endpoint: patch", async {
            let change = EndpointPatch {
                description: Some("Patched".into()),
                throttle_rate: JsOption::Some(5),
                ..Default::default()
            };
            let patched = endpoints.patch(self.app(), "second".into(), change).await?;
            equal((patched.description.as_str(), patched.throttle_rate), ("Patched", Some(5)))?;
            equal((patched.uid, patched.event_types), (Some("second".into()), Some(set(&["none"]))))
        })
        .await;
        step("endpoint: update", async {
            let mut input = EndpointUpsertIn::new(url_of("updated"));
            input.uid = Some("second".into());
            input.event_types = Some(set(&["none"]));
            let updated = endpoints.upsert(self.app(), "second".into(), input).await?;
            equal((updated.url, updated.description.as_str()), (url_of("updated"), ""))?;
            equal((updated.throttle_rate, updated.event_types), (None, Some(set(&["none"]))))
        })
        .await;
        step("endpoint: disable and enable", async {
            let change = |disabled| EndpointPatch { disabled: Some(disabled), ..Default::default() };
            endpoints.patch(self.app(), "second".into(), change(true)).await?;
            let disabled = endpoints.get(self.app(), "second".into()).await?;
            equal(disabled.disabled, Some(true))?;
            let enabled = endpoints.patch(self.app(), "second".into(), change(false)).await?;
            equal(enabled.disabled, Some(false))
        })
        .await;
        step("endpoint: set headers", async {
            let headers = EndpointHeadersIn::new(map(&[("x-one", "1"), ("x-two", "2")]));
            Ok(endpoints.set_headers(self.app(), "orders".into(), headers).await?)
        })
        .await;
        step("endpoint: patch headers", async {
            let mut change = EndpointHeadersPatchIn::new(map(&[("x-three", "3")]));
            change.delete_headers = Some(vec!["x-one".into()]);
            Ok(endpoints.patch_headers(self.app(), "orders".into(), change).await?)
        })
        .await;
        step("endpoint: get headers", async {
            let shown = endpoints.get_headers(self.app(), "orders".into()).await?;
            equal(shown.headers, map(&[]))?;
            equal(shown.sensitive, set(&["x-three", "x-two"]))
        })
        .await;
        step("endpoint: get the secret", async {
            let secret = endpoints.get_secret(self.app(), "orders".into()).await?;
            equal(secret.key.starts_with("whsec_"), true)
        })
        .await;
        step("endpoint: delete", async {
            endpoints.delete(self.app(), "third".into()).await?;
            refused(endpoints.get(self.app(), "third".into()).await, 404)?;
            Ok(())
        })
        .await;
    }

    async fn messages(&self) {
        let messages = self.svix.message();
        let order = || MessageIn {
            event_id: Some("order-1".into()),
            tags: Some(set(&["eu"])),
            ..MessageIn::new(self.order_paid.clone(), self.payload.clone())
        };
        let with_content = || Some(MessageGetOptions { with_content: Some(true) });

        step("message: create", async {
            let made = messages.create(self.app(), order(), None).await?;
            equal((made.event_type, made.event_id), (self.order_paid.clone(), order().event_id))?;
            equal(made.tags, order().tags)
        })
        .await;
        step("message: a repeated eventId is refused", async {
            refused(messages.create(self.app(), order(), None).await, 409)?;
            Ok(())
        })
        .await;
        step("message: list by tag", async {
            let mut other = MessageIn::new("none.else".into(), json!({}));
            other.tags = Some(set(&["us"]));
            messages.create(self.app(), other, None).await?;
            let tag = Some("eu".into());
            let options = MessageListOptions { tag, with_content: Some(true), ..Default::default() };
            let [message] = &messages.list(self.app(), Some(options)).await?.data[..] else {
                return Err("expected one message".into());
            };
            equal((&message.event_id, &message.payload), (&order().event_id, &self.payload))
        })
        .await;
        step("message: get by id and eventId", async {
            let found = messages.get(self.app(), "order-1".into(), with_content()).await?;
            equal(&found.payload, &self.payload)?;
            equal(messages.get(self.app(), found.id.clone(), with_content()).await?, found)
        })
        .await;
        step("webhook: verify what has arrived", async {
            let request = arrived("orders", 1)?.remove(0);
            let key = self.svix.endpoint().get_secret(self.app(), "orders".into()).await?.key;
            equal(&serde_json::from_str::<Value>(&request.body)?, &self.payload)?;
            equal([&request.headers["x-two"], &request.headers["x-three"]], ["2", "3"])?;
            let id = messages.get(self.app(), "order-1".into(), None).await?.id;
            equal(&request.headers["svix-id"], &id)?;
            for prefix in ["svix-", "webhook-"] {
                let headers = headers_of(&request, prefix)?;
                let other_body = format!("{} ", request.body);
                equal((prefix, is_verified(&key, &request.body, &headers)?), (prefix, true))?;
                equal((prefix, is_verified(OTHER_SECRET, &request.body, &headers)?), (prefix, false))?;
                equal((prefix, is_verified(&key, &other_body, &headers)?), (prefix, false))?;
            }
            Ok(())
        })
        .await;
        step("message: a raw payload", async {
            let endpoint = endpoint_of("raw", &[&own(".raw")]);
            self.svix.endpoint().create(self.app(), endpoint, None).await?;
            let raw = MessageIn::new_raw_payload(own(".raw"), "<a> 1 </a>".into())
                .with_content_type("text/xml".into());
            let made = messages.create(self.app(), raw, None).await?;
            let request = arrived("raw", 1)?.remove(0);
            equal([&request.body, &request.headers["content-type"]], ["<a> 1 </a>", "text/xml"])?;
            equal(messages.get(self.app(), made.id.clone(), with_content()).await?.id, made.id)
        })
        .await;
    }

    async fn channels(&self) {
        let messages = self.svix.message();

        step("message: channels", async {
            let channels = Some(set(&["west"]));
            let endpoint = EndpointIn { channels, ..endpoint_of("west", &[&own(".channel")]) };
            let made = self.svix.endpoint().create(self.app(), endpoint, None).await?;
            equal(made.channels, Some(set(&["west"])))?;
            for channel in ["east", "west"] {
                let mut message = MessageIn::new(own(".channel"), json!({ "channel": channel }));
                message.channels = Some(set(&[channel]));
                messages.create(self.app(), message, None).await?;
            }
            equal(arrived("west", 1)?.remove(0).body, r#"{"channel":"west"}"#)?;
            let channel = Some("east".into());
            let options = MessageListOptions { channel, with_content: Some(true), ..Default::default() };
            let found = messages.list(self.app(), Some(options)).await?.data;
            let shown: Vec<_> = found.into_iter().map(|each| (each.channels, each.payload)).collect();
            equal(shown, [(Some(set(&["east"])), json!({ "channel": "east" }))])
        })
        .await;
    }

    async fn secret(&self) -> svix::Result<String> {
        Ok(self.svix.endpoint().get_secret(self.app(), "rotated".into()).await?.key)
    }

    async fn secrets(&self) {
        let endpoints = self.svix.endpoint();
        let mut former = String::new();

        step("endpoint: rotate the secret", async {
            let endpoint = endpoint_of("rotated", &[&own(".rotated")]);
            endpoints.create(self.app(), endpoint, None).await?;
            former = self.secret().await?;
            let rotation = EndpointSecretRotateIn::new();
            let rotated = endpoints.rotate_secret(self.app(), "rotated".into(), rotation, None).await?;
            equal(&rotated.key, &self.secret().await?)?;
            equal(rotated.key == former, false)
        })
        .await;
        step("webhook: verify by the old secret and the new", async {
            let message = MessageIn::new(own(".rotated"), self.payload.clone());
            self.svix.message().create(self.app(), message, None).await?;
            let request = arrived("rotated", 1)?.remove(0);
            let headers = headers_of(&request, "")?;
            equal(is_verified(&former, &request.body, &headers)?, true)?;
            equal(is_verified(&self.secret().await?, &request.body, &headers)?, true)
        })
        .await;
        step("endpoint: send an example", async {
            endpoints.create(self.app(), endpoint_of("example", &[]), None).await?;
            let example = EventExampleIn::new(self.order_paid.clone());
            endpoints.send_example(self.app(), "example".into(), example, None).await?;
            equal(arrived("example", 1)?.remove(0).body, r#"{"total":1}"#)
        })
        .await;
    }

    async fn attempts_of_order(&self) -> svix::Result<Vec<MessageAttemptOut>> {
        let message = self.svix.message().get(self.app(), "order-1".into(), None).await?;
        Ok(self.svix.message_attempt().list_by_msg(self.app(), message.id, None).await?.data)
    }

    async fn attempts(&self) {
        let attempts = self.svix.message_attempt();
        let endpoints = self.svix.endpoint();

        step("attempt: list by message", async {
            let attempt = until(|| self.attempts_of_order()).await?.remove(0);
            let message = self.svix.message().get(self.app(), "order-1".into(), None).await?;
            let endpoint = endpoints.get(self.app(), "orders".into()).await?;
            equal((attempt.msg_id, attempt.endpoint_id), (message.id, endpoint.id))?;
            equal((attempt.status, attempt.response_status_code), (MessageStatus::Success, 204))
        })
        .await;
        step("attempt: list by endpoint", async {
            let found = attempts.list_by_endpoint(self.app(), "orders".into(), None).await?;
            equal(found.data, self.attempts_of_order().await?)
        })
        .await;
        step("attempt: get", async {
            let attempt = self.attempts_of_order().await?.remove(0);
            let (message, id) = (attempt.msg_id.clone(), attempt.id.clone());
            equal(attempts.get(self.app(), message, id, None).await?, attempt)
        })
        .await;
        step("attempt: endpoints of a message", async {
            let message = self.svix.message().get(self.app(), "order-1".into(), None).await?;
            let found = attempts.list_attempted_destinations(self.app(), message.id, None).await?;
            let shown: Vec<_> = found.data.into_iter().map(|each| (each.uid, each.status)).collect();
            equal(shown, [(Some("orders".into()), MessageStatus::Success)])
        })
        .await;
        step("attempt: resend", async {
            let uid = || "gone-once".to_string();
            let endpoint = endpoint_of(&uid(), &[&own(".gone")]);
            endpoints.create(self.app(), endpoint, None).await?;
            let message = MessageIn::new(own(".gone"), self.payload.clone());
            let message = self.svix.message().create(self.app(), message, None).await?;
            until(|| async {
                let status = Some(MessageStatus::Fail);
                let options = MessageAttemptListByEndpointOptions { status, ..Default::default() };
                Ok(attempts.list_by_endpoint(self.app(), uid(), Some(options)).await?.data)
            })
            .await?;
            // A receiver that is gone has been disabled.
            equal(endpoints.get(self.app(), uid()).await?.disabled, Some(true))?;
            let change = EndpointPatch { disabled: Some(false), ..Default::default() };
            endpoints.patch(self.app(), uid(), change).await?;
            attempts.resend(self.app(), message.id, uid(), None).await?;
            let requests = arrived(&uid(), 2)?;
            equal(&requests[1].body, &requests[0].body)
        })
        .await;
    }

    async fn services(&self) {
        let since = Utc::now() - TimeDelta::hours(1);
        let endpoints = self.svix.endpoint();
        let event_types = self.svix.event_type();
        let mut task = String::new();

        step("attempt: messages of an endpoint", async {
            let attempts = self.svix.message_attempt();
            let found = attempts.list_attempted_messages(self.app(), "orders".into(), None).await?;
            let shown: Vec<_> = found.data.into_iter().map(|each| (each.event_id, each.status)).collect();
            equal(shown, [(Some("order-1".into()), MessageStatus::Success)])
        })
        .await;
        step("endpoint: counts", async {
            let options = EndpointGetStatsOptions { since: Some(since), ..Default::default() };
            let stats = endpoints.get_stats(self.app(), "gone-once".into(), Some(options)).await?;
            equal(stats.fail >= 0 && stats.success >= 0, true)
        })
        .await;
        step("endpoint: recover", async {
            let recovery = RecoverIn::new(since);
            let made = endpoints.recover(self.app(), "gone-once".into(), recovery, None).await?;
            task = made.id;
            equal(made.task, BackgroundTaskType::EndpointRecover)
        })
        .await;
        step("background task: list and get", async {
            let tasks = self.svix.background_task();
            let found = tasks.list(None).await?.data;
            equal(found.iter().filter(|each| each.id == task).count(), 1)?;
            equal(tasks.get(task.clone()).await?.id, task)
        })
        .await;
        step("message: precheck", async {
            let check = MessagePrecheckIn::new(own(".raw"));
            equal(self.svix.message().precheck(self.app(), check, None).await?.active, true)
        })
        .await;
        step("event type: import OpenAPI", async {
            let post = json!({ "description": "Imported", "responses": {} });
            let mut input = EventTypeImportOpenApiIn::new();
            input.spec =
                Some(json!({ "openapi": "3.1.0", "webhooks": { own(".imported"): { "post": post } } }));
            event_types.import_openapi(input, None).await?;
            equal(event_types.get(own(".imported")).await?.description, "Imported")
        })
        .await;
        step("operational webhook", async {
            let endpoints = self.svix.operational_webhook().endpoint();
            let mut input = OperationalWebhookEndpointIn::new(url_of("operations"));
            input.event_types = Some(set(&["endpoint.disabled"]));
            let made = endpoints.create(input, None).await?;
            let found = endpoints.get(made.id.clone()).await?;
            equal(&found.event_types, &Some(set(&["endpoint.disabled"])))?;
            let listed = endpoints.list(None).await?.data;
            equal(listed.into_iter().filter(|each| each.id == made.id).collect::<Vec<_>>(), [found])?;
            endpoints.delete(made.id.clone()).await?;
            refused(endpoints.get(made.id).await, 404)?;
            Ok(())
        })
        .await;
        step("portal link", async {
            let access = AppPortalAccessIn::new();
            let link = self.svix.authentication().app_portal_access(self.app(), access, None).await?;
            equal(link.url.parse::<http::Uri>()?.host().is_some(), true)
        })
        .await;
    }

    async fn errors(&self) {
        let applications = self.svix.application();

        step("error: 404 for what there is not", async {
            let error = refused(applications.get("none".into()).await, 404)?;
            let expected = ("not_found".into(), "There is no application none".into());
            equal(said(error)?, expected)
        })
        .await;
        step("error: 409 for a uid that is taken", async {
            let again = self.application_in("Again", self.app());
            refused(applications.create(again, None).await, 409)?;
            Ok(())
        })
        .await;
        step("error: 422 with the place of the fault", async {
            let endpoint = EndpointIn::new("nowhere".into());
            let made = self.svix.endpoint().create(self.app(), endpoint, None).await;
            let svix::Error::Validation(answer) = refused(made, 422)? else {
                return Err("expected a validation error".into());
            };
            let errors = answer.payload.ok_or("it has no body that the SDK can read")?.detail;
            equal(&errors[0].loc, &["body", "url"])
        })
        .await;
        step("error: 401 for an unknown token", async {
            let stranger = connect("testsk_none.eu".into());
            refused(stranger.application().list(None).await, 401)?;
            Ok(())
        })
        .await;
        step("error: 501 names the route", async {
            let error = refused(self.svix.statistics().aggregate_event_types().await, 501)?;
            equal(said(error)?.1.contains("PUT /api/v1/stats/usage/event-types"), true)
        })
        .await;
    }
}

/// Asks until there is an answer, for up to 20 seconds.
async fn until<T, F: Future<Output = svix::Result<Vec<T>>>>(ask: impl Fn() -> F) -> Result<Vec<T>> {
    let deadline = Instant::now() + Duration::from_secs(20);
    while Instant::now() < deadline {
        let found = ask().await?;
        if !found.is_empty() {
            return Ok(found);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Err("not within 20 seconds".into())
}
