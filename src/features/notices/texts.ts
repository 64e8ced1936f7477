/** Notices in words, in the languages of the portal. Names and hosts are not escaped here: the sender does that. */
import type { EndpointNow, NoticeEvent } from "../../core/notices.ts";
import { type OperationalMessage, oneLine, type Severity } from "../../core/operational-message.ts";
import type { PortalLanguage } from "../../core/portal-access.ts";
import type { Destination } from "../../store/destination.ts";

/** The contents of a notice. */
export type Notice = Readonly<{
  /** The most important first. */
  events: readonly (NoticeEvent | "test")[];
  endpoint: Pick<Destination, "id" | "url" | "description">;
  /** Since when its circuit has been open, epoch ms; null: it is closed, or the notice is not about it. */
  openedAt: number | null;
  /** The state of the endpoint; undefined in a test. */
  now?: EndpointNow;
  /** The page of the portal that shows the endpoint, where the deployment's host is known. */
  link: string | undefined;
}>;

type Texts = Readonly<{
  titles: Readonly<Record<NoticeEvent | "test", string>>;
  endpoint: string;
  disabled: Readonly<Record<Extract<EndpointNow, { kind: "disabled" }>["reason"], string>>;
  open: (since: string) => string;
  dead: string;
  recovered: string;
  test: string;
  kept: string;
  link: string;
  footer: string;
}>;

const en: Texts = {
  titles: {
    disabled: "Endpoint disabled",
    circuit_open: "Endpoint fails",
    dead: "Deliveries ended dead",
    recovered: "Endpoint takes events again",
    test: "Test notice",
  },
  endpoint: "Endpoint",
  disabled: {
    gone: "It answered 410 Gone, so it gets no more events.",
    rejecting: "It rejected more than a hundred deliveries in a row, so it gets no more events.",
    failing: "Nothing could be delivered to it for five days, so it gets no more events.",
    transform_failing:
      "Its transformation failed for more than forty deliveries, so it gets no more events. Change the transformation, and resume it.",
  },
  open: (since) =>
    `Its deliveries have failed since ${since}. Events wait, and it is tried again every minute.`,
  dead: "At least one delivery has been given up. It can be sent again in the portal.",
  recovered: "It takes events again. What has waited is being delivered.",
  test: "This is a test. Nothing has happened.",
  kept: "Events wait until it is resumed or their time limit ends.",
  link: "Open the endpoint",
  footer: "There is at most one notice an hour about an endpoint.",
};

const de: Texts = {
  titles: {
    disabled: "Endpunkt abgeschaltet",
    circuit_open: "Endpunkt gestört",
    dead: "Zustellungen aufgegeben",
    recovered: "Endpunkt nimmt wieder Ereignisse an",
    test: "Testnachricht",
  },
  endpoint: "Endpunkt",
  disabled: {
    gone: "Er hat mit 410 Gone geantwortet und bekommt keine Ereignisse mehr.",
    rejecting:
      "Er hat mehr als hundert Zustellungen nacheinander abgelehnt und bekommt keine Ereignisse mehr.",
    failing: "Fünf Tage lang war keine Zustellung möglich. Er bekommt keine Ereignisse mehr.",
    transform_failing:
      "Seine Umformung ist bei mehr als vierzig Zustellungen fehlgeschlagen. Er bekommt keine Ereignisse mehr, bis sie geändert und er fortgesetzt wird.",
  },
  open: (since) =>
    `Zustellungen schlagen seit ${since} fehl. Ereignisse warten, und jede Minute wird es neu versucht.`,
  dead: "Mindestens eine Zustellung wurde aufgegeben. Im Portal kann sie erneut gesendet werden.",
  recovered: "Er nimmt wieder Ereignisse an. Was gewartet hat, wird jetzt zugestellt.",
  test: "Dies ist ein Test. Es ist nichts passiert.",
  kept: "Ereignisse warten, bis er fortgesetzt wird oder ihre Frist abläuft.",
  link: "Endpunkt öffnen",
  footer: "Über einen Endpunkt gibt es höchstens eine Nachricht in der Stunde.",
};

const texts: Readonly<Record<PortalLanguage, Texts>> = { en, de };

const severities: Readonly<Record<NoticeEvent | "test", Severity>> = {
  disabled: "error",
  circuit_open: "error",
  dead: "warning",
  recovered: "info",
  test: "info",
};

const LONGEST_NAME = 80;

/** The notice as a message for people: each event is a fact, by its title. */
export function noticeMessage(notice: Notice, language: PortalLanguage): OperationalMessage {
  const t = texts[language];
  const [first = "test"] = notice.events;
  const { endpoint, link } = notice;
  return {
    title: t.titles[first],
    severity: severities[first],
    subject: nameOfEndpoint(endpoint),
    facts: [
      [t.endpoint, `${nameOfEndpoint(endpoint)} (${endpoint.id})`],
      ...notice.events.map((event) => [t.titles[event], sentenceAbout(event, notice, t)] as const),
    ],
    ...(link !== undefined && { link, linkText: t.link }),
    problem: endpoint.id,
    isEnd: first === "recovered",
  };
}

/** The same as plain text. */
export function noticeText(notice: Notice, language: PortalLanguage): string {
  const t = texts[language];
  const { facts, link } = noticeMessage(notice, language);
  const lines = facts.map(([name, value]) => `${name}: ${value}`);
  return [...lines, ...(link === undefined ? [] : ["", link]), "", t.footer].join("\n");
}

function sentenceAbout(event: NoticeEvent | "test", { now, openedAt }: Notice, t: Texts): string {
  switch (event) {
    case "disabled":
      return now?.kind === "disabled" ? `${t.disabled[now.reason]} ${t.kept}` : t.kept;
    case "circuit_open":
      return t.open(minuteOf(openedAt ?? 0));
    default:
      return t[event];
  }
}

/** `2026-11-26 14:05 UTC` */
function minuteOf(at: number): string {
  return `${new Date(at).toISOString().slice(0, 16).replace("T", " ")} UTC`;
}

/** Its name, or else the host of its URL. */
function nameOfEndpoint({ id, url, description }: Notice["endpoint"]): string {
  const name = oneLine(description || URL.parse(url)?.host || id).trim() || id;
  return [...name].length <= LONGEST_NAME ? name : `${[...name].slice(0, LONGEST_NAME - 1).join("")}…`;
}
