package sign_test

import (
	"encoding/base64"
	"encoding/hex"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook/sign"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

const (
	ownSecret      = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	oldSecret      = "whsec_plJ3nmyCDGBKInavdOK15jsl"
	otherSecret    = "whsec_AAAABBBBCCCCDDDDEEEEFFFF"
	endpointSecret = "whsec_EEEEFFFFGGGGHHHHIIIIJJJJ"
	event          = `{"id":"evt_1","event":"message","accountId":"acct_1","data":{"text":"Grüße & <b>","n":1200,"big":9007199254740993,"list":[1,2,{"a":null,"b":"x/y"}]},"meta":{"seq":7}}`
)

var checkedAt = time.Unix(1_700_000_000, 0)

// request is a delivery as its receiver got it.
type request struct {
	body   string
	header map[string]string
}

// delivered returns an intact delivery.
func delivered(key, body string) request {
	whole, standard := sign.New(secret.New(key)).Sign("evt_1", checkedAt.Unix(), []byte(body))
	return request{body, map[string]string{
		"X-Webhook-Signature": whole, "webhook-id": "evt_1", "webhook-timestamp": strconv.FormatInt(checkedAt.Unix(), 10), "webhook-signature": standard,
	}}
}

func (r request) with(name, value string) request {
	h := map[string]string{}
	maps.Copy(h, r.header)
	h[name] = value
	return request{r.body, h}
}

func (r request) without(names ...string) request {
	h := map[string]string{}
	maps.Copy(h, r.header)
	for _, n := range names {
		delete(h, n)
	}
	return request{r.body, h}
}

func (r request) as(body string) request { return request{body, r.header} }

func has(f sign.Finding, code string) bool {
	return slices.ContainsFunc(f.Details, func(d sign.Detail) bool { return d.Code == code })
}

// Every cause has its verdict, and the details name it. No text contains a secret, a signature or a part of the body.
func TestEveryVerdict(t *testing.T) {
	t.Parallel()
	good := delivered(ownSecret, event)
	standard := good.without("X-Webhook-Signature")
	sum := strings.TrimPrefix(good.header["X-Webhook-Signature"], "sha256=")
	raw, err := hex.DecodeString(sum)
	must.OK(t, err)
	for name, c := range map[string]struct {
		in      request
		given   string
		sent    string
		verdict sign.Verdict
		detail  string
	}{
		"intact":                              {good, "", event, sign.Match, ""},
		"intact, not stored":                  {good, "", "", sign.Match, ""},
		"intact, with the right secret":       {good, ownSecret, event, sign.Match, ""},
		"intact, standard only":               {standard, "", event, sign.Match, ""},
		"names as a framework writes them":    {request{event, map[string]string{"HTTP_X_WEBHOOK_SIGNATURE": good.header["X-Webhook-Signature"]}}, "", "", sign.Match, ""},
		"old":                                 {standardAt(checkedAt.Add(-10 * time.Minute)), "", event, sign.TimestampOld, "age"},
		"from the future":                     {standardAt(checkedAt.Add(10 * time.Minute)), "", event, sign.TimestampOld, "age"},
		"nothing":                             {request{event, nil}, "", event, sign.HeaderMissing, "no_headers"},
		"no signature":                        {good.without("X-Webhook-Signature", "webhook-signature"), "", event, sign.HeaderMissing, ""},
		"another service's signature":         {request{event, map[string]string{"Stripe-Signature": "t=1"}}, "", event, sign.HeaderMissing, "other_header"},
		"only the previous one":               {request{event, map[string]string{"X-Webhook-Signature-Previous": "sha256=00"}}, "", event, sign.HeaderMissing, "only_previous"},
		"standard without its id":             {standard.without("webhook-id"), "", event, sign.HeaderMissing, "no_webhook-id"},
		"standard without its time":           {standard.without("webhook-timestamp"), "", event, sign.HeaderMissing, "no_webhook-timestamp"},
		"a time that is none":                 {standard.with("webhook-timestamp", "today"), "", event, sign.HeaderMalformed, "timestamp"},
		"empty":                               {good.with("X-Webhook-Signature", ""), "", event, sign.HeaderMalformed, "empty"},
		"no prefix":                           {good.with("X-Webhook-Signature", sum), "", event, sign.HeaderMalformed, "no_prefix"},
		"truncated":                           {good.with("X-Webhook-Signature", "sha256="+sum[:50]), "", event, sign.HeaderMalformed, "truncated"},
		"truncated by an odd number":          {good.with("X-Webhook-Signature", "sha256="+sum[:51]), "", event, sign.HeaderMalformed, "truncated"},
		"upper case":                          {good.with("X-Webhook-Signature", "sha256="+strings.ToUpper(sum)), "", event, sign.HeaderMalformed, "upper_case"},
		"quoted":                              {good.with("X-Webhook-Signature", `"sha256=`+sum+`"`), "", event, sign.HeaderMalformed, "quotes"},
		"not hex":                             {good.with("X-Webhook-Signature", "sha256="+strings.Repeat("z!", 32)), "", event, sign.HeaderMalformed, "not_hex"},
		"that of the other header":            {good.with("X-Webhook-Signature", good.header["webhook-signature"]), "", event, sign.HeaderMalformed, "other_kind"},
		"hex in the standard header":          {standard.with("webhook-signature", "sha256="+sum), "", event, sign.HeaderMalformed, "other_kind"},
		"standard without its version":        {standard.with("webhook-signature", "abc"), "", event, sign.HeaderMalformed, "no_prefix"},
		"standard cut off":                    {standard.with("webhook-signature", "v1,abcd"), "", event, sign.HeaderMalformed, "truncated"},
		"of another request":                  {good.with("X-Webhook-Signature", delivered(ownSecret, "{}").header["X-Webhook-Signature"]), "", event, sign.HeaderMalformed, "other_request"},
		"base64":                              {good.with("X-Webhook-Signature", base64.StdEncoding.EncodeToString(raw)), "", event, sign.Base64, ""},
		"base64 after the prefix":             {good.with("X-Webhook-Signature", "sha256="+base64.RawURLEncoding.EncodeToString(raw)), "", event, sign.Base64, ""},
		"sent before the rotation":            {delivered(oldSecret, event), "", event, sign.PreviousSecret, ""},
		"receiver has the old secret":         {good, oldSecret, event, sign.PreviousSecret, "signature_intact"},
		"receiver has one that was replaced":  {delivered("whsec_long_ago_and_gone", event), "whsec_long_ago_and_gone", "", sign.PreviousSecret, ""},
		"another account's delivery":          {delivered(otherSecret, event), "", event, sign.OtherAccount, ""},
		"another account's secret":            {good, otherSecret, event, sign.OtherAccount, "signature_intact"},
		"some secret":                         {good, "whsec_somethingelse1234", event, sign.WrongSecret, "signature_intact"},
		"the secret with a line break":        {good, ownSecret + "\n", event, sign.WrongSecret, "secret_spaces"},
		"the secret without whsec_":           {good, strings.TrimPrefix(ownSecret, "whsec_"), event, sign.WrongSecret, "secret_prefix"},
		"the secret without its end":          {good, ownSecret[:len(ownSecret)-2], event, sign.WrongSecret, "secret_cut"},
		"the secret in lower case":            {good, strings.ToLower(ownSecret), event, sign.WrongSecret, "secret_case"},
		"an API key":                          {good, "sd_sandbox_abc", event, sign.WrongSecret, "api_key"},
		"a variable that is not set":          {good, " ", event, sign.WrongSecret, "secret_empty"},
		"the name of a variable":              {good, "WEBHOOK_SECRET=" + ownSecret, event, sign.WrongSecret, "secret_text_before"},
		"whsec_ twice":                        {good, "whsec_" + ownSecret, event, sign.WrongSecret, "secret_prefix_twice"},
		"a secret as it is shown":             {good, "whsec_…abcd", event, sign.WrongSecret, "secret_shortened"},
		"a secret of another length":          {good, "whsec_somethingelse12345678", event, sign.WrongSecret, "secret_length"},
		"a secret with other characters":      {good, "whsec_" + strings.Repeat("!", 44), event, sign.WrongSecret, "secret_characters"},
		"an endpoint's delivery":              {delivered(endpointSecret, event), "", event, sign.OtherAccount, ""},
		"an endpoint's secret":                {good, endpointSecret, event, sign.OtherAccount, "signature_intact"},
		"wrong secret and a changed body":     {good.as(event + "\n"), "whsec_somethingelse1234", event, sign.WrongSecret, "trailing_newline"},
		"signed with something, not stored":   {delivered("unknown secret 1", event), "", "", sign.WrongSecret, ""},
		"signed with something, body changed": {delivered("unknown secret 1", event).as("{}"), "", event, sign.BodyChanged, "value_changed"},
		"a line break at the end":             {good.as(event + "\n"), "", event, sign.BodyChanged, "trailing_newline"},
		"the same, not stored":                {good.as(event + "\r\n"), ownSecret, "", sign.BodyChanged, "trailing_newline"},
		"a byte order mark":                   {good.as("\ufeff" + event), "", event, sign.BodyChanged, "bom"},
		"the same mark, not stored":           {good.as("\ufeff" + event), "", "", sign.BodyChanged, "bom"},
		"pretty":                              {good.as(strings.ReplaceAll(event, ":", ": ")), "", "", sign.BodyChanged, "reserialized"},
		"changed since the rotation":          {delivered(oldSecret, event).as(event + " "), "", event, sign.BodyChanged, "trailing_newline"},
		"standard, body changed":              {standard.as(event[:40]), "", event, sign.BodyChanged, "truncated"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := sign.Evidence{
				Body: []byte(c.in.body), Header: c.in.header, Given: secret.New(c.given), Current: secret.New(ownSecret), Previous: secret.New(oldSecret),
				Others: []sign.Owned{{Account: "acct_2", Secret: secret.New(otherSecret)}, {Endpoint: "whe_1", Secret: secret.New(endpointSecret)}}, At: checkedAt,
			}
			if c.sent != "" {
				e.Sent = []byte(c.sent)
			}
			got := sign.Check(e)
			if got.Verdict != c.verdict || got.Message == "" || c.detail != "" && !has(got, c.detail) {
				t.Errorf("%s: %+v", got.Verdict, got)
			}
			if (got.Account+got.Endpoint != "") != (c.verdict == sign.OtherAccount) || got.Account != "" && got.Endpoint != "" {
				t.Errorf("account %q and endpoint %q for verdict %s", got.Account, got.Endpoint, got.Verdict)
			}
			for i, d := range got.Details {
				if slices.Contains(got.Details[:i], d) {
					t.Errorf("%s is said twice", d.Code)
				}
			}
			for _, hidden := range []string{ownSecret, oldSecret, otherSecret, sum, "Grüße"} {
				for _, d := range got.Details {
					if strings.Contains(d.Text+got.Message, hidden) {
						t.Errorf("the finding contains %s", hidden)
					}
				}
			}
		})
	}
}

// standardAt returns a delivery with only a standard signature, made at a time.
func standardAt(at time.Time) request {
	_, standard := sign.New(secret.New(ownSecret)).Sign("evt_1", at.Unix(), []byte(event))
	return request{event, map[string]string{"webhook-id": "evt_1", "webhook-timestamp": strconv.FormatInt(at.Unix(), 10), "webhook-signature": standard}}
}

// Without an account, the receiver's secret is checked against the request alone.
func TestCheckWithoutAccount(t *testing.T) {
	t.Parallel()
	good := delivered(ownSecret, event)
	check := func(r request, given string) sign.Verdict {
		return sign.Check(sign.Evidence{Body: []byte(r.body), Header: r.header, Given: secret.New(given), At: checkedAt}).Verdict
	}
	if v := check(good, ownSecret); v != sign.Match {
		t.Error(v)
	}
	if v := check(good.as(event+"\n"), ownSecret); v != sign.BodyChanged {
		t.Error(v)
	}
	if v := check(good, oldSecret); v != sign.WrongSecret {
		t.Error(v)
	}
}

// A secret that does not fit is explained as far as possible without knowing the right one, and nothing is said twice.
func TestSecretsAreExplainedWithoutTheWebhook(t *testing.T) {
	t.Parallel()
	good := delivered(ownSecret, event)
	for given, want := range map[string]string{
		strings.TrimPrefix(ownSecret, "whsec_"): "secret_prefix", " " + ownSecret: "secret_spaces", "A=" + ownSecret: "secret_text_before", "sd_sandbox_abc": "api_key",
	} {
		got := sign.Check(sign.Evidence{Body: []byte(event), Header: good.header, Given: secret.New(given), At: checkedAt})
		if got.Verdict != sign.WrongSecret || !has(got, want) {
			t.Errorf("%s: %+v", want, got)
		}
	}
	changed := sign.Check(sign.Evidence{Body: []byte(event + "\n"), Header: good.header, Given: secret.New(ownSecret), Sent: []byte(event), At: checkedAt})
	if changed.Verdict != sign.BodyChanged || len(changed.Details) != 1 {
		t.Errorf("%+v", changed)
	}
}

// Half of a secret is treated like a wrong one, so that repeated checks cannot reveal it piece by piece.
func TestSecretsCannotBeGuessedPieceByPiece(t *testing.T) {
	t.Parallel()
	good := delivered(ownSecret, event)
	for n := range len(ownSecret) - 4 {
		got := sign.Check(sign.Evidence{Body: []byte(event), Header: good.header, Given: secret.New(ownSecret[:n]), Current: secret.New(ownSecret), At: checkedAt})
		if has(got, "secret_cut") {
			t.Errorf("%d characters are recognised", n)
		}
	}
}

func TestCompare(t *testing.T) {
	t.Parallel()
	latin := make([]byte, 0, len(event))
	for _, r := range event {
		latin = append(latin, byte(r)) // all characters are Latin-1
	}
	var mojibake strings.Builder
	for i := range len(event) {
		mojibake.WriteRune(rune(event[i]))
	}
	for name, c := range map[string]struct{ got, code, text string }{
		"the same":            {event, "", ""},
		"empty":               {"", "empty", "read it before"},
		"a line break":        {event + "\n", "trailing_newline", "1 byte "},
		"two line breaks":     {event + "\r\n", "trailing_newline", "2 bytes"},
		"a mark":              {"\ufeff" + event, "bom", ""},
		"spaces in front":     {"  " + event, "leading_space", ""},
		"cut off":             {event[:100], "truncated", "100 of 168"},
		"more after it":       {event + "x", "appended", "1 byte"},
		"read as Latin-1":     {mojibake.String(), "charset", "Latin-1"},
		"written as Latin-1":  {string(latin), "charset", "Latin-1"},
		"lost characters":     {strings.ReplaceAll(event, "ü", "\ufffd"), "charset", "U+FFFD"},
		"UTF-16":              {"\xff\xfe{\x00", "charset", "UTF-16"},
		"a string":            {strconv.Quote(strings.ReplaceAll(event, "ü", "u")), "quoted", ""},
		"a form":              {"payload=%7B%22id%22", "form", ""},
		"not JSON":            {`{"id":"evt_1",}`, "not_json", "byte 14"},
		"spaced":              {strings.ReplaceAll(event, `":`, `": `), "reserialized", "spaces"},
		"another order":       {`{"event":"message","id":"evt_1",` + event[len(`{"id":"evt_1","event":"message",`):], "reserialized", "order of members differs at the top"},
		"another order below": {strings.Replace(event, `{"a":null,"b":"x/y"}`, `{"b":"x/y","a":null}`, 1), "reserialized", "/data/list/2"},
		"escaped":             {strings.ReplaceAll(event, "ü", `\u00fc`), "reserialized", "escaped differently at /data/text"},
		"slashes escaped":     {strings.ReplaceAll(event, "/", `\/`), "reserialized", "/data/list/2/b"},
		"a float":             {strings.Replace(event, "1200", "1.2e3", 1), "reserialized", "/data/n"},
		"a rounded number":    {strings.Replace(event, "9007199254740993", "9007199254740992", 1), "value_changed", "2^53"},
		"another text":        {strings.Replace(event, "x/y", "x/z", 1), "value_changed", "/data/list/2/b: the text differs"},
		"a missing member":    {strings.Replace(event, `"n":1200,`, "", 1), "value_changed", "/data/n: a member is missing"},
		"a new member":        {strings.Replace(event, `"n":1200,`, `"n":1200,"m":1,`, 1), "value_changed", "/data: there are members that we did not send"},
		"another length":      {strings.Replace(event, `[1,2,`, `[1,`, 1), "value_changed", "a different length"},
		"another kind":        {strings.Replace(event, `1200`, `"1200"`, 1), "value_changed", "the value differs"},
		"a number without end": {
			strings.Replace(event, `1200`, `1e999999999`, 1), "value_changed", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := sign.Compare([]byte(event), []byte(c.got))
			if c.code == "" {
				if len(got) != 0 {
					t.Errorf("%+v", got)
				}
				return
			}
			if len(got) == 0 || got[0].Code != c.code || !strings.Contains(got[0].Text, c.text) {
				t.Errorf("%+v", got)
			}
		})
	}
}

// Compare returns a difference if and only if the bodies differ, whatever they contain, and never hangs or panics.
func FuzzCompare(f *testing.F) {
	for _, got := range []string{event, event + "\n", `{"a":[[[1]]]}`, `[1e400]`, `"x"`, "\xef\xbb\xbf", `{"a":1,"a":2}`, strings.Repeat("[", 200)} {
		f.Add([]byte(event), []byte(got))
	}
	f.Fuzz(func(t *testing.T, sent, got []byte) {
		if same := len(sign.Compare(sent, got)) == 0; same != (string(sent) == string(got)) {
			t.Fatalf("%q and %q: %v", sent, got, same)
		}
	})
}
