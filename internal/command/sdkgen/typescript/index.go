package typescript

import (
	"maps"
	"slices"
	"strings"

	"github.com/stagedoor/stagedoor/internal/command/sdkgen/model"
)

// events writes the data type of each kind of event, and the union of all events.
func (ts *generator) events() {
	f := ts.file(eventsFile)
	f.exports = true
	f.printf("/** The data of each kind of event. */\nexport interface EventData {\n")
	var org, all []string
	for _, e := range ts.model.Events {
		doc := sentence(e.Doc)
		if e.Ephemeral {
			doc += " Not stored: only clients that are listening receive it."
		}
		f.printf("%s  %s: %s;\n", docComment("  ", strings.TrimSpace(doc)), memberName(e.Kind), ts.ref(f, e.Data))
		all = append(all, quote(e.Kind))
		if e.Org {
			org = append(org, quote(e.Kind))
		}
	}
	f.printf("}\n\n")
	f.importType("EventMeta", ts.fileOf["EventMeta"])
	f.printf("/** A kind of event. */\nexport type EventKind = keyof EventData;\n\n")
	f.printf("/** Kinds that concern the organisation. All others concern an account. */\n")
	f.printf("export type OrgEventKind =\n  | %s;\n\n", strings.Join(org, "\n  | "))
	f.printf("%s", `/** An event of any kind, including kinds that are newer than this version of the library. */
export interface AnyEvent {
  /** Identifies the event. It is the same in streams, webhooks and replays. */
  id: string;
  /** The kind of event. */
  event: string;
  /** Null for an event of the organisation itself. */
  accountId: string | null;
  /** When the event was stored. */
  ts: string;
  /** What happened. Its type depends on the kind. */
  data: unknown;
  meta: EventMeta;
}

/** An event of one kind: `+"`EventOf<\"message\">`"+`. */
export interface EventOf<Kind extends EventKind> extends AnyEvent {
  event: Kind;
  accountId: Kind extends OrgEventKind ? string | null : string;
  data: EventData[Kind];
}

/**
 * An event. Comparing `+"`event`"+` with a kind narrows the type of `+"`data`"+`.
 * A newer server may send kinds that are not listed here: ignore unknown kinds.
 */
export type StagedoorEvent = { [Kind in EventKind]: EventOf<Kind> }[EventKind];

`)
	f.printf("/** All kinds of events that this version of the library knows. */\n")
	f.printf("export const eventKinds: readonly EventKind[] = [\n  %s,\n];\n\n", strings.Join(all, ",\n  "))
	f.printf("%s", `const known = new Set<string>(eventKinds);

/** Reports whether this version of the library knows an event's kind. */
export function isKnownEvent(event: AnyEvent): event is StagedoorEvent {
  return known.has(event.event);
}
`)
}

// problems writes the problem codes and the scopes.
func (ts *generator) problems() {
	f := ts.file("problems")
	f.exports = true
	var codes, scopes []string
	for _, p := range ts.model.Problems {
		codes = append(codes, quote(p.Code))
	}
	for _, s := range ts.model.Scopes {
		scopes = append(scopes, quote(s))
	}
	f.printf("/** All problem codes that this version of the library knows. */\n")
	f.printf("export const problemCodes = [\n  %s,\n] as const;\n\n", strings.Join(codes, ",\n  "))
	f.printf("/** The code of a problem. */\nexport type ProblemCode = (typeof problemCodes)[number];\n\n")
	f.printf("/** A permission of an API key. */\nexport type Scope =\n  | %s;\n", strings.Join(scopes, "\n  | "))
}

// account writes the class with all resources of an account.
func (ts *generator) account() {
	f := ts.file("account")
	f.exports = true
	f.importType("AccountCalls", callsFile)
	f.printf("/** The platform's methods on one account. */\nexport class AccountResources {\n")
	for _, r := range ts.model.Resources {
		f.importValue(resourceClass(r), resourceFile(r))
		f.printf("%s  readonly %s: %s;\n", docComment("  ", sentence(r.Doc)), r.Name, resourceClass(r))
	}
	f.printf("\n  constructor(calls: AccountCalls) {\n")
	for _, r := range ts.model.Resources {
		f.printf("    this.%s = new %s(calls);\n", r.Name, resourceClass(r))
	}
	f.printf("  }\n}\n")
}

// client writes the class with all generated groups.
func (ts *generator) client() {
	groups := slices.DeleteFunc(slices.Clone(ts.model.Groups), func(g *model.Group) bool { return !g.HasJSON() })
	f := ts.file("client")
	f.exports = true
	f.importType("Transport", transportFile)
	f.printf("/** The operations of the API itself. */\nexport class ApiGroups {\n")
	for _, g := range groups {
		f.importValue(groupClass(g), groupFile(g))
		f.printf("%s  readonly %s: %s;\n", docComment("  ", g.Doc), g.Name, groupClass(g))
	}
	f.printf("\n  constructor(transport: Transport) {\n")
	for _, g := range groups {
		f.printf("    this.%s = new %s(transport);\n", g.Name, groupClass(g))
	}
	f.printf("  }\n}\n")
}

// index exports the types of all files.
func (ts *generator) index() {
	f := ts.file("index")
	for _, name := range slices.Sorted(maps.Keys(ts.files)) {
		if ts.files[name].exports {
			f.printf("export type * from \"./%s.js\";\n", name)
		}
	}
}
