//! A complete receiver for Breakwater's webhooks. Rust's standard library has neither HTTP nor HMAC: `ring` verifies both
//! kinds of signatures, `tiny_http` serves, `ureq` fetches the public keys.
//!
//! ```text
//! WEBHOOK_SECRET=whsec_… cargo run --release
//! WEBHOOK_JWKS=https://breakwater.example.com/v1/destinations/dst_…/jwks.json cargo run --release
//! ```
//!
//! The first verifies HMAC-SHA256 with the destination's secret, the second ed25519 with its public keys.

use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use base64::Engine;
use ring::{hmac, signature};
use serde_json::Value;
use std::collections::HashMap;
use std::io::Read;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use std::{env, thread};
use tiny_http::{Header, Method, Request, Response, Server};

const TOLERANCE: u64 = 300;
const MAX_BODY_BYTES: u64 = 1024 * 1024;
const REMEMBERED: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// What a refused request is answered with.
struct Refused(u16, &'static str);

enum Verifier {
    Hmac(hmac::Key),
    Ed25519(KeySet),
}

impl Verifier {
    /// Fails unless the request was signed less than five minutes ago. `body` is the raw bytes of it.
    fn verify(&self, request: &Request, body: &[u8]) -> Result<(), Refused> {
        let missing = Refused(401, "a webhook header is missing");
        let header = |name| header_of(request, name).filter(|value| !value.is_empty());
        let (Some(id), Some(timestamp), Some(signatures)) = (
            header("webhook-id"),
            header("webhook-timestamp"),
            header("webhook-signature"),
        ) else {
            return Err(missing);
        };
        if !is_recent(timestamp) {
            return Err(Refused(401, "the timestamp is too old or too new"));
        }
        let content = [id.as_bytes(), b".", timestamp.as_bytes(), b".", body].concat();
        if self.is_signed(&content, signatures)? {
            Ok(())
        } else {
            Err(Refused(401, "no signature matches"))
        }
    }

    fn is_signed(&self, content: &[u8], signatures: &str) -> Result<bool, Refused> {
        match self {
            // One signature for each secret that is in force. `hmac::verify` compares in constant time.
            Verifier::Hmac(key) => Ok(signatures_of("v1", signatures)
                .any(|bytes| hmac::verify(key, content, &bytes).is_ok())),
            Verifier::Ed25519(keys) => {
                let matches = |keys: Vec<Vec<u8>>| {
                    signatures_of("v1a", signatures).any(|bytes| {
                        keys.iter().any(|key| {
                            signature::UnparsedPublicKey::new(&signature::ED25519, key)
                                .verify(content, &bytes)
                                .is_ok()
                        })
                    })
                };
                // A key that is not known may be new: the destination's secret has been rotated.
                Ok(matches(keys.get(Duration::from_secs(300))?)
                    || matches(keys.get(Duration::from_secs(1))?))
            }
        }
    }
}

fn header_of<'a>(request: &'a Request, name: &'static str) -> Option<&'a str> {
    let found = request
        .headers()
        .iter()
        .find(|header| header.field.equiv(name));
    found.map(|header| header.value.as_str())
}

fn is_recent(timestamp: &str) -> bool {
    let is_number = !timestamp.is_empty() && timestamp.bytes().all(|byte| byte.is_ascii_digit());
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    is_number
        && timestamp
            .parse::<u64>()
            .is_ok_and(|at| now.abs_diff(at) <= TOLERANCE)
}

/// The decoded signatures of a version.
fn signatures_of<'a>(version: &'a str, signatures: &'a str) -> impl Iterator<Item = Vec<u8>> + 'a {
    signatures
        .split(' ')
        .filter_map(move |one| match one.split_once(',') {
            Some((given, text)) if given == version => STANDARD.decode(text).ok(),
            _ => None,
        })
}

/// Caches the public keys.
struct KeySet {
    url: String,
    cached: Mutex<(Option<Vec<Vec<u8>>>, Option<Instant>)>,
}

impl KeySet {
    /// The keys, fetched again when they are older than this; the last known ones when they cannot be fetched.
    fn get(&self, max_age: Duration) -> Result<Vec<Vec<u8>>, Refused> {
        let mut cached = self
            .cached
            .lock()
            .expect("no thread panics while it holds the lock");
        let max_age = if cached.0.is_none() {
            Duration::from_secs(1)
        } else {
            max_age
        };
        if cached.1.is_none_or(|at| at.elapsed() >= max_age) {
            cached.1 = Some(Instant::now());
            match fetch_keys(&self.url) {
                Ok(keys) => cached.0 = Some(keys),
                Err(error) => eprintln!("The public keys cannot be fetched: {error}"),
            }
        }
        cached
            .0
            .clone()
            .ok_or(Refused(503, "the public keys are not known"))
    }
}

fn fetch_keys(url: &str) -> Result<Vec<Vec<u8>>, Box<dyn std::error::Error>> {
    let settings = ureq::Agent::config_builder();
    let settings = settings
        .timeout_global(Some(Duration::from_secs(5)))
        .max_redirects(0)
        .build();
    let text = ureq::Agent::new_with_config(settings)
        .get(url)
        .call()?
        .body_mut()
        .read_to_string()?;
    let set: Value = serde_json::from_str(&text)?;
    let keys = set["keys"].as_array().ok_or("there is no list of keys")?;
    let usable = keys
        .iter()
        .filter(|key| key["kty"] == "OKP" && key["crv"] == "Ed25519");
    Ok(usable
        .filter_map(|key| URL_SAFE_NO_PAD.decode(key["x"].as_str()?).ok())
        .collect())
}

/// The ids that have been handled. In production this is a table with a unique column: insert the id in the transaction
/// that stores the effect, so that both or neither survive a crash.
struct Handled(Mutex<HashMap<String, Instant>>);

impl Handled {
    /// Whether this is the first request with the id.
    fn claim(&self, id: &str) -> bool {
        let mut ids = self
            .0
            .lock()
            .expect("no thread panics while it holds the lock");
        ids.retain(|_, at| at.elapsed() < REMEMBERED);
        ids.insert(id.to_owned(), Instant::now()).is_none()
    }

    fn release(&self, id: &str) {
        self.0
            .lock()
            .expect("no thread panics while it holds the lock")
            .remove(id);
    }
}

/// What the application does with an event.
fn handle(id: &str, body: &[u8]) -> Result<(), serde_json::Error> {
    let event: Value = serde_json::from_slice(body)?;
    println!(
        "handled {id} {}",
        event["type"].as_str().unwrap_or_default()
    );
    Ok(())
}

fn receive(request: &mut Request, verifier: &Verifier, handled: &Handled) -> Result<(), Refused> {
    if *request.method() != Method::Post {
        return Err(Refused(405, "only POST is accepted"));
    }
    let mut body = Vec::new();
    let read = request
        .as_reader()
        .take(MAX_BODY_BYTES + 1)
        .read_to_end(&mut body);
    if read.is_err() || body.len() as u64 > MAX_BODY_BYTES {
        return Err(Refused(413, "the body is too large"));
    }
    verifier.verify(request, &body)?;
    let id = header_of(request, "webhook-id").unwrap_or_default();
    if !handled.claim(id) {
        println!("duplicate {id}");
        return Ok(());
    }
    handle(id, &body).map_err(|error| {
        handled.release(id);
        eprintln!("The event cannot be handled: {error}");
        Refused(500, "the event cannot be handled")
    })
}

fn answer(request: Request, result: Result<(), Refused>) {
    let (status, text) = match result {
        Ok(()) => (204, ""),
        Err(Refused(status, text)) => (status, text),
    };
    let mut response = Response::from_string(text).with_status_code(status);
    if status == 503 {
        response.add_header(Header::from_bytes("retry-after", "30").expect("the header is valid"));
    }
    // The sender may be gone.
    let _ = request.respond(response);
}

fn main() {
    let verifier = match (env::var("WEBHOOK_SECRET"), env::var("WEBHOOK_JWKS")) {
        (Ok(secret), Err(_)) => {
            let base64 = secret
                .strip_prefix("whsec_")
                .expect("WEBHOOK_SECRET begins with whsec_");
            let key = STANDARD
                .decode(base64)
                .expect("WEBHOOK_SECRET is whsec_ and base64");
            Verifier::Hmac(hmac::Key::new(hmac::HMAC_SHA256, &key))
        }
        (Err(_), Ok(url)) => Verifier::Ed25519(KeySet {
            url,
            cached: Mutex::new((None, None)),
        }),
        _ => panic!("Set either WEBHOOK_SECRET or WEBHOOK_JWKS"),
    };
    let port = env::var("PORT").unwrap_or("8788".to_owned());
    let server = Server::http(format!("127.0.0.1:{port}")).expect("the port is free");
    let address = server
        .server_addr()
        .to_ip()
        .expect("it listens on an address");
    println!("listening on {}", address.port());
    let shared = Arc::new((server, verifier, Handled(Mutex::default())));
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let (server, verifier, handled) = &*shared;
                while let Ok(mut request) = server.recv() {
                    let result = receive(&mut request, verifier, handled);
                    answer(request, result);
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("no thread panics");
    }
}
