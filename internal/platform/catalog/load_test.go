package catalog_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stagedoor/stagedoor/internal/base/environment"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// Every check of docs/manifest.md rejects a manifest that violates it, and reports the place and the reason.
func TestLoadReportsFaults(t *testing.T) {
	t.Parallel()
	const up, types, events, notes = "upstream.yaml", "types.yaml", "events.yaml", "resources/notes.yaml"
	for name, c := range map[string]struct{ file, from, to, want string }{
		"no YAML":                 {notes, "methods:", "methods: [", "notes.yaml:"},
		"quotes":                  {types, `"linkId?"`, "linkId?", "requires quotes around a name with ?"},
		"unknown key":             {notes, "access: read", "acces: read", `notes.yaml:6: resources.notes.methods.me: unknown key "acces"`},
		"missing key":             {notes, "    access: read\n    http: GET /me\n", "    http: GET /me\n", "resources.notes.methods.me lacks access"},
		"repeated key":            {notes, "access: read", "access: read\n    access: read", `notes.yaml:7: "access" is defined twice`},
		"anchor":                  {notes, "access: read", "access: &a read", "anchors and aliases"},
		"alias":                   {notes, "summary: Notes of a small platform", "summary: &a x\nresource2: *a", "anchors and aliases"},
		"merge":                   {notes, "access: read", "<<: {access: read}", "merge keys"},
		"octal":                   {notes, "maximum: 20000", "maximum: 0o17", "is not a JSON number"},
		"tag":                     {notes, "access: read", "access: !!binary read", "is not allowed in manifests"},
		"two documents":           {notes, "methods:", "---\nmethods:", "more than one document"},
		"wrong section":           {types, "types:", "pages: {}\ntypes:", `unknown key "pages"; this file holds types`},
		"file name":               {notes, "resource: notes", "resource: other", "must be in resources/other.yaml"},
		"no full stop":            {notes, "Who is signed in.", "Who is signed in", "notes.yaml:5"},
		"method name":             {notes, "  list:\n", "  List:\n", "List"},
		"verb":                    {notes, "http: GET /me", "http: HEAD /me", "resources.notes.methods.me.http"},
		"read is POST":            {notes, "http: GET /me", "http: POST /me", "notes.me: a read must be a GET or have safe: true"},
		"safe write":              {notes, "http: DELETE", "safe: true\n    http: DELETE", "safe is for reads"},
		"write is GET":            {notes, "http: DELETE", "http: GET", "a write must not be a GET"},
		"read emits":              {notes, "http: GET /me", "http: GET /me\n    emits: [noted]", "a read must not have emits"},
		"read destroys":           {notes, "http: GET /me", "http: GET /me\n    destructive: true", "a read must not have emits, destructive"},
		"read sends":              {notes, "http: GET /me", "http: GET /me\n    outbound: true", "destructive or outbound"},
		"event":                   {notes, "emits: [noted]", "emits: [nothing]", "notes.create: there is no event nothing"},
		"type of a result":        {notes, "result: Note\n", "result: Nothing\n", "there is no type Nothing"},
		"type of a page":          {notes, "result: {page: Note}", "result: {page: Nothing}", "there is no type Nothing"},
		"type of a field":         {types, "author:     {of: User", "author:     {of: Nobody", "types.yaml:9: author: there is no type Nobody"},
		"type of an event":        {events, "data: Owner", "data: Nobody", "counted: there is no type Nobody"},
		"style":                   {notes, "style: whole", "style: half", `pages has no style "half"`},
		"result twice":            {notes, "{page: Note, style: whole}", "{page: Note, of: Note}", "exactly one of: of, page, fields"},
		"placeholder":             {notes, "/users/{userId}/notes", "/users/{userId}/{other}", "no argument fills {other} of the path"},
		"no placeholder":          {notes, "/users/{userId}/notes", "/users/notes", "which has no {userId}"},
		"nowhere":                 {notes, "days:       {type: integer, enum: [1, 3, 7], to: body}", "days:       {type: integer}", "days is sent nowhere"},
		"somewhere":               {notes, "enum: [1, 3, 7], to: body}", "enum: [1, 3, 7], to: elsewhere}", "to must be path, query, body or header"},
		"same place":              {notes, "code:       {type: string, pattern: \"^[A-Z]{2}$\", to: body}", "code:       {type: string, to: body.text}", "body.text is given twice"},
		"same place below":        {notes, "to: body.schedule.at", "to: body.text.at", "body.text.at is given twice"},
		"same query":              {notes, "send: {query.kind: note", "send: {query.slug: note", "query.slug is given twice"},
		"own header":              {notes, "to: header.x-note-device", "to: header.cookie", "an argument must not set the header cookie"},
		"order":                   {notes, "required: [userId, slug]", "required: [userId, text]", "must come before the optional arguments"},
		"required unknown":        {notes, "required: [userId, slug]", "required: [userId, slg]", `required lists "slg"`},
		"nested read":             {notes, "query:   {type: string, to: body.filter.text}", "query:   {type: object, to: body.filter.text}", "arguments of reads must be flat"},
		"body of a GET":           {notes, "day:     {type: string, format: date, to: query}", "day:     {type: string, format: date, to: body}", "a GET has no body"},
		"limit written down":      {notes, "ratio:   {type: number, to: query}", "limit:   {type: integer, to: query.l}", "limit is an argument of every paged method"},
		"reserved argument":       {notes, "ratio:   {type: number, to: query}", "args:   {type: integer, to: query.l}", "cannot be named args"},
		"reserved resource":       {notes, "resource: notes", "resource: webhook", "must be in resources/webhook.yaml"},
		"example":                 {notes, "priceCents: 1250}", "priceCents: -1}", "the example does not satisfy its own arguments: /priceCents"},
		"no example":              {notes, `    example: {noteId: "5"}`, "", "there is no example"},
		"default":                 {notes, "locked:     {type: boolean, default: false", "locked:     {type: boolean, default: 7", "the default of locked"},
		"default of required":     {notes, "slug:       {type: string,", "slug:       {type: string, default: x,", "is required and has a default"},
		"conversion":              {notes, "priceCents: {type: integer,", "priceCents: {type: number,", "as: cents is for an integer"},
		"bounds":                  {notes, "big:        {type: integer,", "big:        {type: integer, maxLength: 3,", "do not apply to this type"},
		"pattern":                 {notes, "^[A-Z]{2}$", "^[A-Z{2}$", "pattern"},
		"enum":                    {notes, "enum: [1, 3, 7]", "enum: [1, 3, x]", "enum has a value of another type"},
		"values":                  {notes, "values: {newest: desc, oldest: asc}", "enum: [newest], values: {newest: desc, oldest: asc}", "values lists oldest, which is not in enum"},
		"no type":                 {notes, "big:        {type: integer,", "big:        {", "give it a type, or $ref: Id"},
		"optional in path":        {notes, "required: [noteId, name]", "required: [noteId]", "goes to the path and must be required"},
		"field without a type":    {types, "count:      {type: integer}", "count:      {from: x}", "give one of type, as, of"},
		"field with two":          {types, "count:      {type: integer}", "count:      {as: id, of: User}", "give one of type, as, of"},
		"field with too much":     {types, "count:      {type: integer}", "count:      {type: integer, as: id}", "remove the type"},
		"default of a field":      {types, "ratio:      {type: number, default: 0}", "ratio:      {type: number, default: x}", "the default is not of the field's type"},
		"null and default":        {types, "ratio:      {type: number, default: 0}", "ratio?:      {type: number, default: 0}", "is never null"},
		"constant":                {types, "kind:       {const: note}", "kind?:       {const: note}", "a constant cannot have from"},
		"itself":                  {types, "ownerName: {type: string, from: by.user.name}", "note: {of: Note, from: .}", "contains itself"},
		"unused type":             {types, "  Owner:", "  Spare: {x: {type: string}}\n  Owner:", "types.yaml:30: the type Spare is not used"},
		"frame twice":             {events, "    when: {by.kind: creator}\n", "", "distinguish them with when"},
		"unknown event":           {events, "counted:", "unknown:", "created by passUnknown"},
		"class":                   {events, "class: ephemeral", "class: lasting", "events.noteLost.class"},
		"verify":                  {up, "verify: notes.me", "verify: notes.you", "verify: there is no method notes.you"},
		"verify needs":            {up, "verify: notes.me", "verify: notes.delete", "must be a read"},
		"verify without id":       {up, "verify: notes.me", "verify: notes.list", "verify: notes.list returns no id"},
		"steps of no challenge":   {up, "  # An answer with this is a challenge, whatever its status.\n  challenge:\n    at: error.challenge\n    token: token\n    channel: method\n    channels: {sms: sms, app: totp, email: mail, face: selfie}\n    available: methods\n    mask: sent_to\n    expires: expires_at\n    page: page_url\n    sent: is_sent                     # false: the mail goes out when asked for (resend)\n    state: state                      # of a selfie, when checked: open, passed, rejected\n", "", "signIn: code, resend, switch and check require challenge"},
		"code without a path":     {up, "  code: error.code\n", "", "errors.kinds: rule 1 has a code, which requires errors.code"},
		"failure without a path":  {up, "  code: error.code\n", "", "signIn.failures: rule 1 has a code, which requires errors.code"},
		"two usual":               {up, "limit: query.limit}\n  whole", "limit: query.limit, usual: true}\n  whole", "have usual: true"},
		"half a page":             {up, "nextOfLast: id, cursor: query.from_id, ", "nextOfLast: id, ", "require each other"},
		"cookie not kept":         {up, "kept: [auth_id, sess, lang]", "kept: [auth_id, lang]", "sess is used but not in kept"},
		"step":                    {up, "body: {code: $code}", "body: {code: $password}", "signIn.code: there is no value password"},
		"oauth host":              {up, "  logout:\n", "  oauth: {authorize: 'https://a.example/o', token: /t, hosts: [b.example]}\n  logout:\n", "signIn.oauth.authorize: hosts does not list a.example"},
		"oauth unused host":       {up, "  logout:\n", "  oauth: {authorize: /o, token: /t, hosts: [b.example]}\n  logout:\n", "signIn.oauth.hosts: no URL is on b.example"},
		"oauth over http":         {up, "  logout:\n", "  oauth: {authorize: 'http://a.example/o', token: /t, hosts: [a.example]}\n  logout:\n", "signIn.oauth.authorize"},
		"oauth parameter":         {up, "  logout:\n", "  oauth: {authorize: /o, token: /t, send: {state: x}}\n  logout:\n", "signIn.oauth.send: state is set by the service"},
		"no sign-in":              {up, "signIn:\n  credentials:\n    http: POST /auth/login\n    body: {email: $email, password: $password}\n", "signIn:\n", "signIn lacks"},
		"failure twice":           {up, "{code: 1011, failure: wrong_code}", "{code: 1001, failure: wrong_code}", "rule 2 never applies, because rule 1 matches first"},
		"since without listSince": {up, "listSince: true", "listSince: false", "listSince: true and socket.since require each other"},
		"kind":                    {up, "kind: creator_only", "kind: fans_only", "errors.kinds.2.kind"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := catalog.Load(withEdit(t, c.file, c.from, c.to))
			faults, ok := errors.AsType[catalog.Faults](err)
			if !ok {
				t.Fatalf("loaded: %v", err)
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v\nwant %q", err, c.want)
			}
			for _, f := range faults {
				if f.File == "" || f.Line == 0 && f.File != up && f.File != events {
					t.Errorf("a fault has no position: %+v", f)
				}
			}
		})
	}
}

// A manifest needs only what its platform has. The rest has defaults.
func TestLeastManifest(t *testing.T) {
	t.Parallel()
	c, err := catalog.Load(filesOf(t, "least"))
	must.OK(t, err)
	if c.Isolation != catalog.ByAccount || c.Environment != environment.Live || !slices.Equal(c.Session.Cookies.Kept, []string{"sid"}) {
		t.Errorf("isolation %q, environment %q, kept cookies %v", c.Isolation, c.Environment, c.Session.Cookies.Kept)
	}
	if events := c.Events(); len(events) != 1 || events[0].Class != catalog.Durable {
		t.Errorf("%d events, class %q", len(events), events[0].Class)
	}
	login, err := c.SignIn.Login(secret.New("a@b.c"), secret.New("x"))
	if err != nil || login.Path != "/session" {
		t.Errorf("%s %v", login.Path, err)
	}
	if _, err := c.SignIn.Answer(secret.New(""), secret.New("1")); !errors.Is(err, catalog.ErrNoStep) {
		t.Errorf("answer: %v", err)
	}
	body := []byte(`{"error":{"code":1,"message":"No.","challenge":{"token":"t"}},"token":"t"}`)
	r := c.Classify(http.StatusUnauthorized, nil, body)
	if r.Kind != catalog.RefusedSession || r.Code != "" || r.Message != "" {
		t.Errorf("%+v", r)
	}
	if ch, ok := c.SignIn.Challenge(body, r); ok {
		t.Errorf("a challenge on a platform without any: %+v", ch)
	}
	if code, _ := c.SignIn.Failure(catalog.StepCredentials, http.StatusUnauthorized, r); code != "invalid_credentials" {
		t.Errorf("failure %q", code)
	}
}

// Load rejects folders that are not manifests.
func TestLoadRejectsInvalidFolders(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("{a: ", 60) + "1" + strings.Repeat("}", 60)
	for name, files := range map[string]fstest.MapFS{
		"empty":      {},
		"other file": {"upstream.yaml": {Data: []byte("a: 1")}, "other.yaml": {Data: []byte("a: 1")}},
		"sub folder": {"upstream.yaml": {Data: []byte("a: 1")}, "resources/a/b.yaml": {Data: []byte("a: 1")}},
		"list":       {"upstream.yaml": {Data: []byte("[1]")}},
		"nothing":    {"upstream.yaml": {Data: []byte("")}},
		"deep":       {"upstream.yaml": {Data: []byte("a: " + deep)}},
		"large":      {"upstream.yaml": {Data: []byte("a: " + strings.Repeat("x", 300<<10))}},
		"bomb":       {"upstream.yaml": {Data: []byte("a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]")}},
	} {
		if _, err := catalog.Load(files); err == nil {
			t.Errorf("%s: loaded", name)
		}
	}
}

// A resource cannot have the name of an API route.
func TestReservedWordsAreNotResources(t *testing.T) {
	t.Parallel()
	for _, word := range strings.Fields("webhook webhooks events connect session sessions usage deliveries audit pause resume reauthenticate state sandbox media") {
		files := withEdit(t, "resources/notes.yaml", "resource: notes", "resource: "+word)
		files["resources/"+word+".yaml"] = files["resources/notes.yaml"]
		delete(files, "resources/notes.yaml")
		_, err := catalog.Load(files)
		if err == nil || !strings.Contains(err.Error(), "reserved") {
			t.Errorf("%s: %v", word, err)
		}
	}
}

// The revision depends on the names and contents of the files only.
func TestRevision(t *testing.T) {
	t.Parallel()
	base := small(t).Revision
	if again := small(t).Revision; again != base || !strings.HasPrefix(base, "sha256:") || len(base) != 71 {
		t.Errorf("%s, %s", base, again)
	}
	other, err := catalog.Load(withEdit(t, "resources/notes.yaml", "Who is signed in.", "Who is signed in?."))
	must.OK(t, err)
	if other.Revision == base {
		t.Error("different contents have the same revision")
	}
}

// Draft keeps the valid parts of a manifest and reports the faults in the rest.
func TestDraftKeepsValidParts(t *testing.T) {
	t.Parallel()
	files := withEdit(t, "resources/notes.yaml", "emits: [noted]", "emits: [nothing]")
	files["resources/broken.yaml"] = &fstest.MapFile{Data: []byte("resource: broken")}
	c, faults := catalog.Draft(files)
	if c == nil || len(faults) != 2 {
		t.Fatalf("%v %v", c, faults)
	}
	if _, ok := c.Method("notes", "create"); ok {
		t.Error("the draft has a method with faults")
	}
	if _, ok := c.Method("notes", "list"); !ok {
		t.Error("the draft lacks a valid method")
	}
}
