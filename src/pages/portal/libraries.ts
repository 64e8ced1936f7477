/**
 * Code that verifies signatures with a library of Standard Webhooks, by language: the portal shows it before code without a
 * library, and `npm run figures` writes the table of docs/receivers.md from it. Pure.
 */

type LibraryUse = Readonly<{
  /** The command or the coordinates that install it. */
  install: string;
  code: string;
}>;

const linesOfCode = (lines: readonly string[]) => `${lines.join("\n")}\n`;

export const libraries = {
  node: {
    install: "npm install standardwebhooks",
    code: linesOfCode([
      "// npm install standardwebhooks",
      'import { Webhook } from "standardwebhooks";',
      "",
      "const webhook = new Webhook(process.env.WEBHOOK_SECRET);",
      "",
      "// body: the raw bytes, as a Buffer; headers: by lower-case name. Throws unless a signature matches.",
      "export function verify(headers, body) {",
      "  return webhook.verify(body, headers);",
      "}",
    ]),
  },
  python: {
    install: "pip install standardwebhooks",
    code: linesOfCode([
      "# pip install standardwebhooks",
      "import os",
      "from standardwebhooks.webhooks import Webhook",
      "",
      'webhook = Webhook(os.environ["WEBHOOK_SECRET"])',
      "",
      "# body: the raw bytes; headers: by lower-case name. Raises an error unless a signature matches.",
      "def verify(headers, body):",
      "    return webhook.verify(body, headers)",
    ]),
  },
  go: {
    install: "go get github.com/standard-webhooks/standard-webhooks/libraries",
    code: linesOfCode([
      "// go get github.com/standard-webhooks/standard-webhooks/libraries",
      "package webhooks",
      "",
      "import (",
      '\t"net/http"',
      '\t"os"',
      "",
      '\tstandardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"',
      ")",
      "",
      "// body: the raw bytes. Returns an error unless a signature matches.",
      "func verify(headers http.Header, body []byte) error {",
      '\twebhook, err := standardwebhooks.NewWebhook(os.Getenv("WEBHOOK_SECRET"))',
      "\tif err != nil {",
      "\t\treturn err",
      "\t}",
      "\treturn webhook.Verify(body, headers)",
      "}",
    ]),
  },
  rust: {
    install: "cargo add standardwebhooks",
    code: linesOfCode([
      "// cargo add standardwebhooks http",
      "/// `body`: the raw bytes",
      "fn verify(headers: &http::HeaderMap, body: &[u8]) -> Result<(), Box<dyn std::error::Error>> {",
      '    let secret = std::env::var("WEBHOOK_SECRET")?;',
      "    Ok(standardwebhooks::Webhook::new(&secret)?.verify(body, headers)?)",
      "}",
    ]),
  },
  java: {
    install: "com.standardwebhooks:standardwebhooks",
    code: linesOfCode([
      "// Maven: com.standardwebhooks:standardwebhooks",
      "import com.standardwebhooks.Webhook;",
      "import java.net.http.HttpHeaders;",
      "",
      "class Webhooks {",
      "  /** @param body the raw body. Throws an exception unless a signature matches. */",
      "  static void verify(HttpHeaders headers, String body) throws Exception {",
      '    new Webhook(System.getenv("WEBHOOK_SECRET")).verify(body, headers);',
      "  }",
      "}",
    ]),
  },
  ruby: {
    install: "gem install standardwebhooks",
    code: linesOfCode([
      "# gem install standardwebhooks",
      "require 'standardwebhooks'",
      "",
      "WEBHOOK = StandardWebhooks::Webhook.new(ENV.fetch('WEBHOOK_SECRET'))",
      "",
      "# body: the raw bytes; headers: by lower-case name. Raises an error unless a signature matches.",
      "def verify(headers, body)",
      "  WEBHOOK.verify(body, headers)",
      "end",
    ]),
  },
  php: {
    install: "composer require standard-webhooks/standard-webhooks",
    code: linesOfCode([
      "<?php",
      "// composer require standard-webhooks/standard-webhooks",
      "// $body: the raw bytes (php://input); $headers: by lower-case name. Throws an exception unless a signature matches.",
      "function verify(array $headers, string $body) {",
      "    $webhook = new \\StandardWebhooks\\Webhook(getenv('WEBHOOK_SECRET'));",
      "    return $webhook->verify($body, $headers);",
      "}",
    ]),
  },
} as const satisfies Readonly<Record<string, LibraryUse>>;

/** Undefined if the language has no published library. */
export function libraryFor(language: string): LibraryUse | undefined {
  return Object.hasOwn(libraries, language) ? libraries[language as keyof typeof libraries] : undefined;
}
