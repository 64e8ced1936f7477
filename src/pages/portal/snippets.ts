/**
 * Code that verifies an endpoint's signatures, in eight languages, made from the recipe of the endpoint's own form
 * (core/signature-forms.ts). Each is one function over the raw body and the headers; the id and the timestamp are sent
 * with every form in `webhook-id` and `webhook-timestamp`. Pure.
 */
import type { Recipe } from "../../core/signature-forms.ts";

export const snippetLanguages = {
  node: "Node.js",
  python: "Python",
  go: "Go",
  rust: "Rust",
  java: "Java",
  ruby: "Ruby",
  php: "PHP",
  csharp: "C#",
} as const;
export type SnippetLanguage = keyof typeof snippetLanguages;

/** A text with placeholders, in parts: literals, and values of the request. */
type Part = Readonly<{ text: string } | { name: "id" | "timestamp" | "type" | "body" }>;

/** A language's needs of a recipe. */
type Plan = Readonly<{
  header: string;
  content: readonly Part[];
  /** The text before the digest in the header, or in one of the header's parts. */
  before: readonly Part[];
  /** The separator of several signatures; undefined if the header has one. */
  separator: string | undefined;
  key: "text" | "bytes";
  /** A line that reads the event's type, if it is needed: only a template can need it. */
  typed: (line: string) => readonly string[];
  algorithm: "sha1" | "sha256" | "sha512";
  encoding: "hex" | "base64";
}>;

export function snippetOf(language: SnippetLanguage, recipe: Recipe): string {
  return `${writers[language](planOf(recipe)).join("\n")}\n`;
}

function planOf({ content, digest, header, prefix, version, separator }: Recipe): Plan {
  // Where signatures have a separator, the prefix is a part of the header of its own.
  const before = separator === undefined ? prefix + version : version;
  const parts = { content: partsOf(content), before: partsOf(before) };
  const needsType = Object.values(parts)
    .flat()
    .some((part) => "name" in part && part.name === "type");
  const typed = (line: string) => (needsType ? [line] : []);
  return { header, ...parts, separator, typed, ...digest };
}

function partsOf(template: string): readonly Part[] {
  return template
    .split(/(\{(?:id|timestamp|type|body)\})/)
    .filter((part) => part !== "")
    .map((part): Part => {
      const name = /^\{(id|timestamp|type|body)\}$/.exec(part)?.[1];
      return name === undefined ? { text: part } : { name: name as "body" };
    });
}

/** A literal that all of these languages read alike: printable ASCII and line feeds (signature-forms.ts). */
function literal(text: string): string {
  return `"${text.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n")}"`;
}

/** Ruby, PHP and others read `#{` and `$` within double quotes. */
function single(text: string): string {
  if (text.includes("\n")) return literal(text).replaceAll("$", "\\$").replaceAll("#", "\\#");
  return `'${text.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;
}

/** An expression that joins the parts; an empty text if there are none. */
function joined(
  parts: readonly Part[],
  plus: string,
  quote: (text: string) => string,
  variable = "",
): string {
  const written = parts.map((part) => ("text" in part ? quote(part.text) : `${variable}${part.name}`));
  return written.length === 0 ? quote("") : written.join(plus);
}

const TYPE_NOTE = "the event's type, as the header that you chose for it has it";

const writers: Readonly<Record<SnippetLanguage, (plan: Plan) => readonly string[]>> = {
  node: ({ header, content, before, separator, key, algorithm, encoding, typed }) => [
    'import { createHmac, timingSafeEqual } from "node:crypto";',
    "",
    "const secret = process.env.WEBHOOK_SECRET;",
    `const key = ${key === "bytes" ? 'Buffer.from(secret.replace("whsec_", ""), "base64")' : "secret"};`,
    "",
    "// body: the raw bytes, as a Buffer; headers: by lower-case name",
    "export function verify(headers, body) {",
    '  const id = headers["webhook-id"];',
    '  const timestamp = headers["webhook-timestamp"];',
    ...typed(`  const type = headers["x-event-type"]; // ${TYPE_NOTE}`),
    "  if (Math.abs(Date.now() / 1000 - Number(timestamp)) > 300) return false;",
    `  const mac = createHmac("${algorithm}", key);`,
    ...content.map((part) => `  mac.update(${"text" in part ? literal(part.text) : part.name});`),
    `  const expected = ${joined(before, " + ", literal)} + mac.digest("${encoding}");`,
    `  const given = ${separator === undefined ? `[headers[${literal(header)}] ?? ""]` : `(headers[${literal(header)}] ?? "").split(${literal(separator)})`};`,
    "  return given.some(",
    "    (one) => one.length === expected.length && timingSafeEqual(Buffer.from(one), Buffer.from(expected)),",
    "  );",
    "}",
  ],

  python: ({ header, content, before, separator, key, algorithm, encoding, typed }) => {
    const bytes = (part: Part) =>
      "text" in part ? `b${literal(part.text)}` : part.name === "body" ? "body" : `${part.name}.encode()`;
    return [
      "import base64, hashlib, hmac, os, time",
      "",
      'secret = os.environ["WEBHOOK_SECRET"]',
      `key = ${key === "bytes" ? 'base64.b64decode(secret.removeprefix("whsec_"))' : "secret.encode()"}`,
      "",
      "# body: the raw bytes; headers: by lower-case name",
      "def verify(headers, body):",
      '    id, timestamp = headers["webhook-id"], headers["webhook-timestamp"]',
      ...typed(`    type = headers["x-event-type"]  # ${TYPE_NOTE}`),
      "    if abs(time.time() - int(timestamp)) > 300:",
      "        return False",
      `    digest = hmac.new(key, ${content.map(bytes).join(" + ")}, hashlib.${algorithm})`,
      `    expected = ${joined(before, " + ", literal)} + ${encoding === "hex" ? "digest.hexdigest()" : "base64.b64encode(digest.digest()).decode()"}`,
      `    given = ${separator === undefined ? `[headers.get(${literal(header)}, "")]` : `headers.get(${literal(header)}, "").split(${literal(separator)})`}`,
      "    return any(hmac.compare_digest(one.encode(), expected.encode()) for one in given)",
    ];
  },

  go: ({ header, content, before, separator, key, algorithm, encoding, typed }) => {
    const encoded = encoding === "hex" ? "hex.EncodeToString" : "base64.StdEncoding.EncodeToString";
    const usesBase64 = encoding === "base64" || key === "bytes";
    return [
      "package webhooks",
      "",
      "import (",
      '\t"crypto/hmac"',
      `\t"crypto/${algorithm}"`,
      ...(usesBase64 ? ['\t"encoding/base64"'] : []),
      ...(encoding === "hex" ? ['\t"encoding/hex"'] : []),
      '\t"net/http"',
      '\t"os"',
      '\t"strconv"',
      ...(separator !== undefined || key === "bytes" ? ['\t"strings"'] : []),
      '\t"time"',
      ")",
      "",
      "// body: the raw bytes",
      "func verify(headers http.Header, body []byte) bool {",
      ...(key === "bytes"
        ? [
            '\tkey, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(os.Getenv("WEBHOOK_SECRET"), "whsec_"))',
            "\tif err != nil {",
            "\t\treturn false",
            "\t}",
          ]
        : ['\tkey := []byte(os.Getenv("WEBHOOK_SECRET"))']),
      '\tid, timestamp := headers.Get("webhook-id"), headers.Get("webhook-timestamp")',
      ...typed(`\ttype_ := headers.Get("x-event-type") // ${TYPE_NOTE}`),
      "\tsentAt, err := strconv.ParseInt(timestamp, 10, 64)",
      '\tif age := time.Now().Unix() - sentAt; err != nil || id == "" || age > 300 || age < -300 {',
      "\t\treturn false",
      "\t}",
      `\tmac := hmac.New(${algorithm}.New, key)`,
      ...content.map((part) => `\tmac.Write(${goBytes(part)})`),
      `\texpected := ${joined(before, " + ", literal).replaceAll(/\btype\b/g, "type_")} + ${encoded}(mac.Sum(nil))`,
      ...(separator === undefined
        ? [`\treturn hmac.Equal([]byte(headers.Get(${literal(header)})), []byte(expected))`]
        : [
            `\tfor _, given := range strings.Split(headers.Get(${literal(header)}), ${literal(separator)}) {`,
            "\t\tif hmac.Equal([]byte(given), []byte(expected)) {",
            "\t\t\treturn true",
            "\t\t}",
            "\t}",
            "\treturn false",
          ]),
      "}",
    ];
  },

  rust: ({ header, content, before, separator, key, algorithm, encoding, typed }) => {
    const hash = { sha1: "sha1::Sha1", sha256: "sha2::Sha256", sha512: "sha2::Sha512" }[algorithm];
    const engine = "base64::engine::general_purpose::STANDARD";
    return [
      `// Cargo.toml: hmac, ${algorithm === "sha1" ? "sha1" : "sha2"}, base64, hex, subtle, http`,
      "use base64::Engine as _;",
      "use hmac::{Hmac, Mac};",
      "use subtle::ConstantTimeEq;",
      "",
      "/// `body`: the raw bytes; `now`: seconds since 1970",
      "fn verify(headers: &http::HeaderMap, body: &[u8], now: i64) -> Option<bool> {",
      '    let secret = std::env::var("WEBHOOK_SECRET").ok()?;',
      key === "bytes"
        ? `    let key = ${engine}.decode(secret.trim_start_matches("whsec_")).ok()?;`
        : "    let key = secret.into_bytes();",
      '    let id = headers.get("webhook-id")?.to_str().ok()?;',
      '    let timestamp = headers.get("webhook-timestamp")?.to_str().ok()?;',
      ...typed(`    let kind = headers.get("x-event-type")?.to_str().ok()?; // ${TYPE_NOTE}`),
      "    if (now - timestamp.parse::<i64>().ok()?).abs() > 300 {",
      "        return Some(false);",
      "    }",
      `    let mut mac = Hmac::<${hash}>::new_from_slice(&key).ok()?;`,
      ...content.map((part) => `    mac.update(${rustBytes(part)});`),
      "    let digest = mac.finalize().into_bytes();",
      `    let expected = [${[...before.map(rustText), encoding === "hex" ? "hex::encode(digest).as_str()" : `${engine}.encode(digest).as_str()`].join(", ")}].concat();`,
      `    let given = headers.get(${literal(header)})?.to_str().ok()?;`,
      "    let is_same = |one: &str| bool::from(one.as_bytes().ct_eq(expected.as_bytes()));",
      separator === undefined
        ? "    Some(is_same(given))"
        : `    Some(given.split(${literal(separator)}).any(is_same))`,
      "}",
    ];
  },

  java: ({ header, content, before, separator, key, algorithm, encoding, typed }) => {
    const mac = `Hmac${algorithm.toUpperCase()}`;
    return [
      "import java.security.GeneralSecurityException;",
      "import java.security.MessageDigest;",
      "import java.time.Instant;",
      "import java.util.*;",
      "import java.util.regex.Pattern;",
      "import javax.crypto.Mac;",
      "import javax.crypto.spec.SecretKeySpec;",
      "import static java.nio.charset.StandardCharsets.UTF_8;",
      "",
      "class Webhooks {",
      "  /** @param body the raw bytes; @param headers by lower-case name */",
      "  static boolean verify(Map<String, String> headers, byte[] body) throws GeneralSecurityException {",
      '    String secret = System.getenv("WEBHOOK_SECRET");',
      key === "bytes"
        ? '    byte[] key = Base64.getDecoder().decode(secret.replaceFirst("^whsec_", ""));'
        : "    byte[] key = secret.getBytes(UTF_8);",
      '    String id = headers.get("webhook-id"), timestamp = headers.get("webhook-timestamp");',
      ...typed(`    String type = headers.get("x-event-type"); // ${TYPE_NOTE}`),
      "    if (Math.abs(Instant.now().getEpochSecond() - Long.parseLong(timestamp)) > 300) return false;",
      `    Mac mac = Mac.getInstance("${mac}");`,
      `    mac.init(new SecretKeySpec(key, "${mac}"));`,
      ...content.map(
        (part) =>
          `    mac.update(${"text" in part ? `${literal(part.text)}.getBytes(UTF_8)` : part.name === "body" ? "body" : `${part.name}.getBytes(UTF_8)`});`,
      ),
      `    String digest = ${encoding === "hex" ? "HexFormat.of().formatHex(mac.doFinal())" : "Base64.getEncoder().encodeToString(mac.doFinal())"};`,
      `    String expected = ${joined(before, " + ", literal)} + digest;`,
      `    String given = headers.getOrDefault(${literal(header)}, "");`,
      ...(separator === undefined
        ? ["    return MessageDigest.isEqual(given.getBytes(UTF_8), expected.getBytes(UTF_8));"]
        : [
            `    return Arrays.stream(given.split(Pattern.quote(${literal(separator)})))`,
            "        .anyMatch(one -> MessageDigest.isEqual(one.getBytes(UTF_8), expected.getBytes(UTF_8)));",
          ]),
      "  }",
      "}",
    ];
  },

  ruby: ({ header, content, before, separator, key, algorithm, encoding, typed }) => {
    const digest =
      encoding === "hex"
        ? `OpenSSL::HMAC.hexdigest('${algorithm}', KEY, content)`
        : `[OpenSSL::HMAC.digest('${algorithm}', KEY, content)].pack('m0')`;
    return [
      "require 'openssl'",
      "",
      "SECRET = ENV.fetch('WEBHOOK_SECRET')",
      `KEY = ${key === "bytes" ? "SECRET.delete_prefix('whsec_').unpack1('m')" : "SECRET"}`,
      "",
      "# body: the raw bytes; headers: by lower-case name",
      "def verify(headers, body)",
      "  id, timestamp = headers['webhook-id'], headers['webhook-timestamp']",
      ...typed(`  type = headers['x-event-type'] # ${TYPE_NOTE}`),
      "  return false if (Time.now.to_i - timestamp.to_i).abs > 300",
      `  content = [${content.map((part) => ("text" in part ? single(part.text) : part.name)).join(", ")}].map(&:b).join`,
      `  expected = ${joined(before, " + ", single)} + ${digest}`,
      `  given = headers.fetch(${single(header)}, '')${separator === undefined ? "" : `.split(${single(separator)})`}`,
      separator === undefined
        ? "  OpenSSL.secure_compare(given, expected)"
        : "  given.any? { |one| OpenSSL.secure_compare(one, expected) }",
      "end",
    ];
  },

  php: ({ header, content, before, separator, key, algorithm, encoding, typed }) => {
    const hmac = (raw: boolean) =>
      `hash_hmac('${algorithm}', ${joined(content, " . ", single, "$")}, $key${raw ? ", true" : ""})`;
    return [
      "<?php",
      "// $body: the raw bytes (php://input); $headers: by lower-case name",
      "function verify(array $headers, string $body): bool {",
      "    $secret = getenv('WEBHOOK_SECRET');",
      `    $key = ${key === "bytes" ? "base64_decode(preg_replace('/^whsec_/', '', $secret))" : "$secret"};`,
      "    $id = $headers['webhook-id'] ?? '';",
      "    $timestamp = $headers['webhook-timestamp'] ?? '';",
      ...typed(`    $type = $headers['x-event-type'] ?? ''; // ${TYPE_NOTE}`),
      "    if (abs(time() - (int) $timestamp) > 300) return false;",
      `    $expected = ${joined(before, " . ", single, "$")} . ${encoding === "hex" ? hmac(false) : `base64_encode(${hmac(true)})`};`,
      `    $given = ${separator === undefined ? `[$headers[${single(header)}] ?? '']` : `explode(${single(separator)}, $headers[${single(header)}] ?? '')`};`,
      "    foreach ($given as $one) {",
      "        if (hash_equals($expected, $one)) return true;",
      "    }",
      "    return false;",
      "}",
    ];
  },

  csharp: ({ header, content, before, separator, key, algorithm, encoding, typed }) => {
    const hash = algorithm.toUpperCase();
    return [
      "using System.Security.Cryptography;",
      "using System.Text;",
      "",
      "static class Webhooks",
      "{",
      "    // body: the raw bytes; headers: by lower-case name",
      "    public static bool Verify(IReadOnlyDictionary<string, string> headers, byte[] body)",
      "    {",
      '        var secret = Environment.GetEnvironmentVariable("WEBHOOK_SECRET")!;',
      key === "bytes"
        ? '        var key = Convert.FromBase64String(secret.Replace("whsec_", ""));'
        : "        var key = Encoding.UTF8.GetBytes(secret);",
      '        var (id, timestamp) = (headers["webhook-id"], headers["webhook-timestamp"]);',
      ...typed(`        var type = headers["x-event-type"]; // ${TYPE_NOTE}`),
      "        if (Math.Abs(DateTimeOffset.UtcNow.ToUnixTimeSeconds() - long.Parse(timestamp)) > 300) return false;",
      `        using var mac = IncrementalHash.CreateHMAC(HashAlgorithmName.${hash}, key);`,
      ...content.map(
        (part) =>
          `        mac.AppendData(${"text" in part ? `Encoding.UTF8.GetBytes(${literal(part.text)})` : part.name === "body" ? "body" : `Encoding.UTF8.GetBytes(${part.name})`});`,
      ),
      `        var expected = ${joined(before, " + ", literal)} + ${encoding === "hex" ? "Convert.ToHexString(mac.GetHashAndReset()).ToLowerInvariant()" : "Convert.ToBase64String(mac.GetHashAndReset())"};`,
      `        var given = headers.GetValueOrDefault(${literal(header)}, "")${separator === undefined ? "" : `.Split(${literal(separator)})`};`,
      "        bool IsSame(string one) => CryptographicOperations.FixedTimeEquals(",
      "            Encoding.UTF8.GetBytes(one), Encoding.UTF8.GetBytes(expected));",
      separator === undefined ? "        return IsSame(given);" : "        return given.Any(IsSame);",
      "    }",
      "}",
    ];
  },
};

function goBytes(part: Part): string {
  if ("text" in part) return `[]byte(${literal(part.text)})`;
  return part.name === "body" ? "body" : `[]byte(${part.name === "type" ? "type_" : part.name})`;
}

function rustBytes(part: Part): string {
  if ("text" in part) return `b${literal(part.text)}`;
  return part.name === "body" ? "body" : `${rustName(part.name)}.as_bytes()`;
}

function rustText(part: Part): string {
  return "text" in part ? literal(part.text) : rustName(part.name);
}

/** `type` is a word of the language. */
function rustName(name: string): string {
  return name === "type" ? "kind" : name;
}
