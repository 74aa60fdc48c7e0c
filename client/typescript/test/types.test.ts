// What the compiler must know. It is checked when the tests are compiled: a line marked with @ts-expect-error that is
// no error fails the build.
import { test } from "node:test";
import { isProblem, type EventKind, type EventOf, type Message, type Problem, type Stagedoor, type StagedoorEvent } from "../src/index.js";

type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
const same = <_Check extends true>(): void => undefined;

/** Never called: what counts is that it compiles. */
export async function compiles(client: Stagedoor, event: StagedoorEvent, thrown: unknown): Promise<void> {
  const account = client.account("acct_1");

  const message = await account.messages.send({ chatId: "1", text: "hi" });
  same<Same<typeof message, Message>>();
  const dry = await account.messages.send({ chatId: "1" }, { dryRun: true });
  same<Same<typeof dry, null>>();
  const keyed = await account.messages.send({ chatId: "1" }, { idempotencyKey: "mine", signal: AbortSignal.timeout(1) });
  same<Same<typeof keyed, Message>>();
  for await (const one of account.messages.listAll({ chatId: "1" })) same<Same<typeof one, Message>>();
  // @ts-expect-error chatId is needed
  await account.messages.send({ text: "hi" });
  // @ts-expect-error ids are texts
  await account.messages.send({ chatId: 1 });
  // @ts-expect-error there is no such argument
  await account.messages.send({ chatId: "1", colour: "red" });
  // @ts-expect-error there is no such order
  await account.messages.list({ chatId: "1", order: "sideways" });
  // @ts-expect-error there is no such method
  await account.messages.shout({});

  if (event.event === "message") same<Same<typeof event.data.message, Message>>();
  if (event.event === "tips") event.data.amountCents.toFixed();
  // @ts-expect-error there is no such kind
  if (event.event === "mesage") return;
  switch (event.event) {
    case "account.connected":
      same<Same<typeof event.accountId, string>>();
      break;
    case "key.created":
      same<Same<typeof event.accountId, string | null>>();
      break;
    default:
  }
  for await (const one of account.stream()) same<Same<typeof one, StagedoorEvent>>();
  for await (const one of account.stream({ events: ["message"] })) same<Same<typeof one, EventOf<"message">>>();
  for await (const one of account.stream({ events: ["message", "tips"] })) same<Same<typeof one.event, "message" | "tips">>();
  for await (const one of account.stream({ events: ["message*", "!typing"] })) same<Same<typeof one.event, EventKind>>();
  // @ts-expect-error there is no such kind
  account.stream({ events: ["mesage"] });

  if (isProblem(thrown, "quota-exceeded", "upstream/rate-limited")) {
    same<Same<typeof thrown, Problem<"quota-exceeded" | "upstream/rate-limited">>>();
    thrown.retryAfterSec?.toFixed();
  }
  // @ts-expect-error there is no such code
  isProblem(thrown, "quota-exceded");

  const attempt = await client.connect.login({ email: "ok@sandbox.test", password: "good" }, { wait: 20 });
  attempt.failure?.code.toUpperCase();
  // @ts-expect-error it is null unless the attempt failed
  attempt.failure.code.toUpperCase();
  // @ts-expect-error this call cannot wait
  await client.me.get({ wait: 20 });
}

test("types hold", () => undefined);
