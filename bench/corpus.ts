/**
 * Webhook bodies of several trades, for benches whose figures depend on their size and on how well they compress. They
 * are generated, not collected: they contain no one's data, and the same number gives the same event. `data` has about
 * 0.9 KB on average, from 0.25 to 1.8. Three of eight events are orders, the others in equal parts invoices, pushes to
 * a repository, shipments, sign-ups and bounced mails. Ids, names, amounts and times differ from event to event, as in
 * real traffic; keys and the words around them repeat, which is what compression makes use of.
 */
import { type Random, seededRandom } from "../src/core/seeded-random.ts";

export type CorpusEvent = Readonly<{ type: string; data: Readonly<Record<string, unknown>> }>;

/** The event with this number. Its data begins with `number`, by which a receiver recognizes it. */
export function corpusEvent(number: number): CorpusEvent {
  const make = makerOf(seededRandom(number + 1));
  const kind = kinds[number % kinds.length] ?? order;
  const { type, data } = kind(make);
  return { type, data: { number, ...data } };
}

type Maker = ReturnType<typeof makerOf>;
type Kind = (make: Maker) => CorpusEvent;

const FIRST = "Ada Björn Chidi Dolores Emre Fatima Grace Hiro Ines Jonas Kwame Lena".split(" ");
const LAST = "Almeida Becker Costa Dvořák Eriksen Fischer García Haddad Ivanova Jensen".split(" ");
const CITIES = "Berlin Porto Lagos Kyoto Toronto Gdańsk Lyon Bristol Austin Pune".split(" ");
const GOODS = [
  "Espresso cups, set of 4",
  "Walnut desk lamp",
  "Trail running vest",
  "Enamel stock pot",
  "Wool throw",
];
const WORDS = "fix retry queue limit header parser docs test cache timeout index".split(" ");

function makerOf(random: Random) {
  const whole = (below: number) => Math.floor(random() * below);
  const one = <T>(list: readonly T[]): T => list[whole(list.length)] as T;
  const text = (length: number, alphabet = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ") =>
    Array.from({ length }, () => alphabet[whole(alphabet.length)]).join("");
  const hex = (length: number) => text(length, "0123456789abcdef");
  const cents = (most: number) => 100 + whole(most);
  const time = () => new Date(1_760_000_000_000 + whole(30 * 86_400) * 1_000).toISOString();
  const name = () => `${one(FIRST)} ${one(LAST)}`;
  const person = () => {
    const full = name();
    const mail = full
      .normalize("NFKD")
      .replace(/[^a-z ]/gi, "")
      .toLowerCase()
      .replace(" ", ".");
    return { id: `cus_${text(14)}`, name: full, email: `${mail}${whole(99)}@example.com` };
  };
  const address = () => ({
    line1: `${1 + whole(240)} ${one(LAST)} Street`,
    city: one(CITIES),
    postal_code: text(5, "0123456789"),
    country: one(["DE", "PT", "NG", "JP", "CA", "PL", "FR", "GB", "US", "IN"]),
  });
  return { whole, one, text, hex, cents, time, name, person, address };
}

const order: Kind = ({ text, whole, one, cents, time, person, address }) => {
  const lines = Array.from({ length: 3 + whole(5) }, () => ({
    sku: `SKU-${text(8).toUpperCase()}`,
    title: one(GOODS),
    quantity: 1 + whole(3),
    unit_amount: cents(20_000),
    tax_rate: one([0.07, 0.19, 0.2]),
  }));
  return {
    type: one(["order.created", "order.paid"]),
    data: {
      id: `ord_${text(16)}`,
      status: "paid",
      currency: one(["eur", "usd", "gbp"]),
      amount_total: lines.reduce((sum, line) => sum + line.quantity * line.unit_amount, 0),
      customer: person(),
      shipping_address: address(),
      billing_address: address(),
      line_items: lines,
      payment: {
        id: `pay_${text(20)}`,
        method: "card",
        brand: one(["visa", "mastercard"]),
        last4: text(4, "0123456789"),
      },
      created_at: time(),
    },
  };
};

const invoice: Kind = ({ text, whole, one, cents, time, person }) => ({
  type: "invoice.finalized",
  data: {
    id: `in_${text(24)}`,
    invoice_number: `${text(8).toUpperCase()}-${1000 + whole(9000)}`,
    status: "open",
    currency: "usd",
    amount_due: cents(90_000),
    amount_paid: 0,
    customer: person(),
    period: { start: time(), end: time() },
    lines: Array.from({ length: 3 + whole(5) }, () => ({
      id: `il_${text(24)}`,
      description: `${1 + whole(20)} × ${one(["Team", "Business", "Starter"])} seat, monthly`,
      amount: cents(40_000),
      proration: false,
    })),
    hosted_url: `https://billing.example.com/i/${text(48)}`,
  },
});

const push: Kind = ({ hex, whole, one, time, name }) => ({
  type: "repository.push",
  data: {
    ref: `refs/heads/${one(["main", "next", "release"])}`,
    before: hex(40),
    after: hex(40),
    repository: {
      id: whole(900_000_000),
      full_name: `${one(WORDS)}/${one(WORDS)}-${one(WORDS)}`,
      private: true,
    },
    pusher: { name: name(), id: whole(9_000_000) },
    commits: Array.from({ length: 3 + whole(5) }, () => ({
      id: hex(40),
      message: `${one(WORDS)} ${one(WORDS)} ${one(WORDS)} ${one(WORDS)}`,
      timestamp: time(),
      added: [`src/${one(WORDS)}/${one(WORDS)}.ts`],
      removed: [],
      modified: [`src/${one(WORDS)}.ts`, `test/${one(WORDS)}.test.ts`],
    })),
  },
});

const shipment: Kind = ({ text, whole, one, time, address }) => ({
  type: "shipment.updated",
  data: {
    id: `shp_${text(18)}`,
    carrier: one(["dhl", "ups", "dpd"]),
    tracking_code: text(20, "0123456789"),
    status: one(["in_transit", "out_for_delivery", "delivered"]),
    weight_grams: 200 + whole(9_000),
    from: address(),
    to: address(),
    events: Array.from({ length: 4 + whole(6) }, () => ({
      at: time(),
      status: one(["accepted", "departed", "arrived", "customs"]),
      location: one(CITIES),
    })),
  },
});

const signUp: Kind = ({ text, one, time, person }) => ({
  type: "user.created",
  data: {
    ...person(),
    locale: one(["de-DE", "en-GB", "pt-PT", "ja-JP"]),
    email_verified: false,
    source: {
      channel: one(["ads", "search", "referral"]),
      campaign: `c-${text(10)}`,
      landing: `/${one(WORDS)}/${one(WORDS)}`,
    },
    created_at: time(),
  },
});

const bounce: Kind = ({ text, one, time, person }) => ({
  type: "mail.bounced",
  data: {
    message_id: `<${text(32)}@mail.example.com>`,
    recipient: person().email,
    bounce: {
      kind: one(["hard", "soft"]),
      code: one(["5.1.1", "4.2.2", "5.7.1"]),
      diagnostic: `smtp; 550 ${one(WORDS)} ${one(WORDS)}: user unknown`,
    },
    sent_at: time(),
    bounced_at: time(),
    tags: [one(WORDS), one(WORDS)],
    stream: { id: `str_${text(12)}`, name: one(["receipts", "digest", "alerts"]) },
  },
});

const kinds: readonly Kind[] = [order, invoice, order, push, shipment, order, signUp, bounce];
