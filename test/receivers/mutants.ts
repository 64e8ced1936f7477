/** For each language, its receiver of docs/receivers without one rule: a text of the file, and what replaces it. */
import type { CertificationCheck } from "../../src/core/certification.ts";

/** The rule that is removed, and the check of the conformance suite that finds it. */
export const rules = {
  "verifies the raw bytes of the body": "valid",
  "refuses a signature that does not match": "wrong_signature",
  "refuses a body that was changed": "altered_body",
  "refuses a request without a signature": "unsigned",
  "refuses an old timestamp": "old_timestamp",
  "accepts any of several signatures": "rotated_secret",
  "accepts a duplicate": "duplicate",
  "accepts a large body": "large_body",
  "answers before it works": "prompt_answer",
} as const satisfies Readonly<Record<string, CertificationCheck>>;

export type Rule = keyof typeof rules;

export type TextReplacement = readonly [from: string, to: string];

/** How long a receiver that works first takes to answer. */
export const WORK_MS = 600;

/** A request whose signature does not match is let through, which breaks two rules. */
const unverified = (from: string, to: string) =>
  ({
    "refuses a signature that does not match": [from, to],
    "refuses a body that was changed": [from, to],
  }) as const;

export const mutants: Readonly<Record<string, Readonly<Record<Rule, TextReplacement>>>> = {
  Node: {
    "verifies the raw bytes of the body": [
      "await verify(request.headers, body);",
      "await verify(request.headers, Buffer.from(JSON.stringify(JSON.parse(body.toString()))));",
    ],
    ...unverified("if (!isValid) throw", "if (isValid === undefined) throw"),
    "refuses a request without a signature": [
      'throw new Refused(401, "a webhook header is missing");',
      "return;",
    ],
    "refuses an old timestamp": [" || Math.abs(age) > TOLERANCE_S", " || age === 0.5"],
    "accepts any of several signatures": ['signatures.split(" ")', 'signatures.split(" ").slice(0, 1)'],
    "accepts a duplicate": [
      "if (!claim(id)) return",
      'if (!claim(id)) throw new Refused(409, "duplicate");\n  if (id === "") return',
    ],
    "accepts a large body": ["1024 * 1024", "16 * 1024"],
    "answers before it works": [
      "    handle(id, JSON",
      `    await new Promise((end) => setTimeout(end, ${WORK_MS}));\n    handle(id, JSON`,
    ],
  },
  Workers: {
    "verifies the raw bytes of the body": [
      "await verify(request.headers, body, env);",
      "await verify(request.headers, new TextEncoder().encode(JSON.stringify(JSON.parse(new TextDecoder().decode(body)))), env);",
    ],
    ...unverified("if (!isValid) throw", "if (isValid === undefined) throw"),
    "refuses a request without a signature": [
      'throw new Refused(401, "a webhook header is missing");',
      "return;",
    ],
    "refuses an old timestamp": [" || Math.abs(age) > TOLERANCE_S", " || age === 0.5"],
    "accepts any of several signatures": ['signatures.split(" ")', 'signatures.split(" ").slice(0, 1)'],
    "accepts a duplicate": [
      "if (!(await claim(env.DB, id))) return",
      'if (!(await claim(env.DB, id))) throw new Refused(409, "duplicate");\n  if (id === "") return',
    ],
    "accepts a large body": ["1024 * 1024", "16 * 1024"],
    "answers before it works": [
      "    await handle(",
      `    await new Promise((end) => setTimeout(end, ${WORK_MS}));\n    await handle(`,
    ],
  },
  Python: {
    "verifies the raw bytes of the body": [
      "verify(self.headers, body)",
      "verify(self.headers, json.dumps(json.loads(body)).encode())",
    ],
    ...unverified("if not is_valid:", "if is_valid is None:"),
    "refuses a request without a signature": ['raise Refused(401, "a webhook header is missing")', "return"],
    "refuses an old timestamp": [" or abs(time.time() - int(timestamp)) > TOLERANCE_S", ""],
    "accepts any of several signatures": ['signatures.split(" ")]', 'signatures.split(" ")[:1]]'],
    "accepts a duplicate": ['logging.info("duplicate %s", message_id)', 'raise Refused(409, "duplicate")'],
    "accepts a large body": ["1024 * 1024", "16 * 1024"],
    "answers before it works": [
      "            handle(message_id, json",
      `            time.sleep(${WORK_MS / 1000})\n            handle(message_id, json`,
    ],
  },
  Ruby: {
    "verifies the raw bytes of the body": [
      "verify(request, body, @verifier)",
      "verify(request, JSON.generate(JSON.parse(body)), @verifier)",
    ],
    ...unverified("unless verifier.signed?(content, signatures)", "if content.empty?"),
    "refuses a request without a signature": [
      'raise Refused.new(401, "a webhook header is missing") if',
      "return if",
    ],
    "refuses an old timestamp": [" && (Time.now.to_i - timestamp.to_i).abs <= TOLERANCE_S", ""],
    "accepts any of several signatures": [
      'signatures.split(" ").filter_map',
      'signatures.split(" ").first(1).filter_map',
    ],
    "accepts a duplicate": ['return puts("duplicate #{id}")', 'raise Refused.new(409, "duplicate")'],
    "accepts a large body": ["1024 * 1024", "16 * 1024"],
    "answers before it works": [
      "      handle(id, JSON",
      `      sleep(${WORK_MS / 1000})\n      handle(id, JSON`,
    ],
  },
  Go: {
    "verifies the raw bytes of the body": [
      "if err := r.verify(request.Header, body); err != nil {",
      "var parsed any\n\tjson.Unmarshal(body, &parsed)\n\twritten, _ := json.Marshal(parsed)\n\tif err := r.verify(request.Header, written); err != nil {",
    ],
    ...unverified("if err == nil && !isValid {", "if err == nil && !isValid && len(body) == 0 {"),
    "refuses a request without a signature": [
      'return refused{http.StatusUnauthorized, "a webhook header is missing"}',
      "return nil",
    ],
    "refuses an old timestamp": [
      " || time.Since(time.Unix(int64(seconds), 0)).Abs() > tolerance",
      " || seconds == 0",
    ],
    "accepts any of several signatures": [
      'strings.Split(signatures, " "))',
      'strings.Split(signatures, " ")[:1])',
    ],
    "accepts a duplicate": [
      'fmt.Println("duplicate", id)\n\t\treturn nil',
      'return refused{http.StatusConflict, "duplicate"}',
    ],
    "accepts a large body": ["1 << 20", "1 << 14"],
    "answers before it works": [
      "	if err := handle(id, body)",
      `	time.Sleep(${WORK_MS} * time.Millisecond)\n	if err := handle(id, body)`,
    ],
  },
  Rust: {
    "verifies the raw bytes of the body": [
      "verifier.verify(request, &body)?;",
      "let parsed: Value = serde_json::from_slice(&body).unwrap_or_default();\n    verifier.verify(request, parsed.to_string().as_bytes())?;",
    ],
    ...unverified(
      "if self.is_signed(&content, signatures)? {",
      "if self.is_signed(&content, signatures)? || !content.is_empty() {",
    ),
    "refuses a request without a signature": [
      "return Err(missing);",
      "let _ = missing;\n            return Ok(());",
    ],
    "refuses an old timestamp": [
      ".is_ok_and(|at| now.abs_diff(at) <= TOLERANCE)",
      ".is_ok_and(|at| now.abs_diff(at) <= TOLERANCE * 9)",
    ],
    "accepts any of several signatures": [".split(' ')", ".split(' ')\n        .take(1)"],
    "accepts a duplicate": [
      "return Ok(());\n    }\n    handle",
      'return Err(Refused(409, "duplicate"));\n    }\n    handle',
    ],
    "accepts a large body": ["1024 * 1024", "16 * 1024"],
    "answers before it works": [
      "    handle(id, &body)",
      `    thread::sleep(Duration::from_millis(${WORK_MS}));\n    handle(id, &body)`,
    ],
  },
  Java: {
    "verifies the raw bytes of the body": [
      "verify(exchange.getRequestHeaders(), body, verifier);",
      'verify(exchange.getRequestHeaders(), new String(body, StandardCharsets.UTF_8).replace(" ", "").getBytes(StandardCharsets.UTF_8), verifier);',
    ],
    ...unverified("if (!verifier.isSigned(content, signatures)) throw", "if (content.length == 0) throw"),
    "refuses a request without a signature": [
      'throw new Refused(401, "a webhook header is missing");',
      "return;",
    ],
    "refuses an old timestamp": [".compareTo(TOLERANCE) <= 0", ".compareTo(REMEMBERED) <= 0"],
    "accepts any of several signatures": ['signatures.split(" ")', 'new String[] {signatures.split(" ")[0]}'],
    "accepts a duplicate": [
      'System.out.println("duplicate " + id);\n            return;',
      'throw new Refused(409, "duplicate");',
    ],
    "accepts a large body": ["1024 * 1024", "16 * 1024"],
    "answers before it works": [
      "            handle(id, body);",
      `            java.util.concurrent.locks.LockSupport.parkNanos(${WORK_MS}_000_000L);\n            handle(id, body);`,
    ],
  },
};
