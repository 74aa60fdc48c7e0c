package catalog_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/environment"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// The responses in this file are those of Ghost 5.130.6, some shortened.

func ghost(t testing.TB) *catalog.Catalog {
	t.Helper()
	c, err := catalog.Builtin("ghost")
	must.OK(t, err)
	return c
}

const (
	ghostID     = "6afcf58446efe079d980752c"
	ghostMember = `"member_id":"` + ghostID + `","member":{"id":"` + ghostID + `","uuid":"u","name":null,"email":"ada@example.com","avatar_image":null}`
	ghostPost   = `"id":"6afcf59046efe079d9807fdc","uuid":"u","title":"Trains","slug":"trains","url":"https://maya.example.com/trains/","visibility":"public",` +
		`"featured":false,"email_only":false,"excerpt":null,"feature_image":null,"tags":[],"authors":[{"id":"1","name":"Maya","slug":"maya","email":"maya@example.com"}],` +
		`"created_at":"2026-11-18T00:47:00.000Z","updated_at":"2026-11-18T00:47:12.000Z","published_at":"2026-11-18T00:47:10.000Z"`
	ghostMail = ghostMember + `,"email":{"id":"6afcf59046efe079d9807fe5","post_id":"6afcf59046efe079d9807fdc","subject":"Trains"}`
)

// The manifest covers Ghost. Every request stays below the admin API and ends in a slash, without which Ghost redirects.
func TestGhostHoldsTheWholeCatalog(t *testing.T) {
	t.Parallel()
	c := ghost(t)
	kinds := 0
	for _, k := range c.Events() {
		if k.Kind != catalog.Unknown {
			kinds++
		}
	}
	if len(c.Methods()) < 80 || len(c.Resources()) < 15 || kinds < 12 {
		t.Errorf("%d methods of %d resources, %d kinds of events", len(c.Methods()), len(c.Resources()), kinds)
	}
	if c.Environment != environment.Live || c.Site == nil || c.Origin != "" || c.Poll == nil || c.Socket != nil || c.Verify.ID() != "me.get" ||
		!strings.HasPrefix(c.Logo, "data:image/svg+xml;base64,") || c.Home == "" {
		t.Errorf("%+v", c)
	}
	for _, m := range c.Methods() {
		args, err := m.Parse(m.Example, false)
		must.OK(t, err)
		if req := args.Request(); !strings.HasPrefix(req.Path, "/ghost/api/admin/") || !strings.HasSuffix(req.Path, "/") || m.Platform != "ghost" {
			t.Errorf("%s: %s %s", m.ID(), req.Method, req.Path)
		}
	}
	for _, path := range []string{"/db/", "/users/password/", "/users/owner/", "/token/", "/identities/", "/authentication/", "/themes/", "/routes/"} {
		for _, m := range c.Methods() {
			args, err := m.Parse(m.Example, false)
			must.OK(t, err)
			if strings.Contains(args.Request().Path, path) {
				t.Errorf("%s exposes %s", m.ID(), path)
			}
		}
	}
}

// A site is Ghost if its public description has a site_uuid.
func TestGhostSite(t *testing.T) {
	t.Parallel()
	c := ghost(t)
	if req := c.Site.Request(); req.Path != "/ghost/api/admin/site/" {
		t.Error(req.Path)
	}
	info, err := c.Site.Read([]byte(`{"site":{"title":"Maya's letters","description":"Thoughts, stories and ideas.","logo":null,"icon":null,"cover_image":null,` +
		`"accent_color":"#FF1A75","locale":"en","url":"https://maya.example.com/","version":"5.130","allow_external_signup":true,` +
		`"site_uuid":"5b7a5f4e-9c3f-4a55-8b0b-2e5a6f5f9a10"}}`))
	if err != nil || info.ID != "5b7a5f4e-9c3f-4a55-8b0b-2e5a6f5f9a10" || info.Title != "Maya's letters" {
		t.Errorf("%+v %v", info, err)
	}
	if _, err := c.Site.Read([]byte(`{"name":"Another site","namespaces":["wp/v2"]}`)); !errors.Is(err, catalog.ErrChanged) {
		t.Error(err)
	}
}

// Requests have the form that Ghost expects: wrapped bodies, text ids and page numbers.
func TestGhostRequests(t *testing.T) {
	t.Parallel()
	c := ghost(t)
	for name, r := range map[string]struct {
		resource, method, args, verb, path, query, body string
	}{
		"a member": {"members", "create", `{"email":"iris@example.com","labels":["vip"],"tiers":[{"id":"` + anID + `"}]}`, "POST", "/members/", "send_email=false",
			`{"members":[{"email":"iris@example.com","labels":["vip"],"tiers":[{"id":"` + anID + `"}]}]}`},
		"the owner":   {"staff", "get", `{"userId":"1"}`, "GET", "/users/1/", "", ``},
		"a page":      {"labels", "list", `{"limit":100,"cursor":"2"}`, "GET", "/labels/", "limit=100&page=2", ``},
		"a bulk call": {"members", "addLabel", `{"labelId":"` + anID + `","filter":"status:paid"}`, "PUT", "/members/bulk/", "filter=status:paid", `{"bulk":{"meta":{"label":{"id":"` + anID + `"}},"action":"addLabel"}}`},
		"no body":     {"members", "delete", `{"memberId":"` + anID + `"}`, "DELETE", "/members/" + anID + "/", "cancel=false", ``},
	} {
		args, err := method(t, c, r.resource, r.method).Parse([]byte(r.args), false)
		must.OK(t, err)
		req := args.Request()
		got, err := url.ParseQuery(req.Query)
		must.OK(t, err)
		want, err := url.ParseQuery(r.query)
		must.OK(t, err)
		for key, values := range want {
			if !slices.Equal(got[key], values) {
				t.Errorf("%s: the query is %s", name, req.Query)
			}
		}
		if req.Method != r.verb || req.Path != "/ghost/api/admin"+r.path || string(req.Body) != r.body {
			t.Errorf("%s: %s %s %s", name, req.Method, req.Path, req.Body)
		}
	}
	// Ghost answers an id of another form with 422. We know the form.
	_, err := method(t, c, "members", "get").Parse([]byte(`{"memberId":"12345"}`), false)
	if !errors.Is(err, problem.UpstreamNotFound.New("")) {
		t.Error(err)
	}
}

const fullMember = `{"id":"6917a2c8d9e40001a3b50101","uuid":"2f6e…","email":"iris@example.com","name":null,"note":null,"geolocation":null,"subscribed":true,` +
	`"created_at":"2026-11-16T09:30:00.000Z","updated_at":"2026-11-16T09:30:00.000Z","labels":[{"id":"6917a2c8d9e40001a3b50111","name":"vip","slug":"vip",` +
	`"created_at":"2026-11-16T09:30:00.000Z","updated_at":"2026-11-16T09:30:00.000Z"}],"subscriptions":[{"id":"","tier":{"id":"6917a2c8d9e40001a3b50121",` +
	`"name":"Gold","slug":"gold","expiry_at":null},"customer":{"id":"","name":null,"email":"iris@example.com"},"plan":{"id":"","nickname":"Complimentary",` +
	`"interval":"year","currency":"USD","amount":0},"status":"active","start_date":"2026-11-16T09:30:00.000Z","default_payment_card_last4":"****",` +
	`"cancel_at_period_end":false,"cancellation_reason":null,"current_period_end":"2026-11-16T09:30:00.000Z","price":{"id":"","price_id":"","nickname":"Complimentary",` +
	`"amount":0,"interval":"year","type":"recurring","currency":"USD","tier":{"id":"","tier_id":""}}}],"avatar_image":"https://www.gravatar.com/avatar/1",` +
	`"comped":true,"email_count":0,"email_opened_count":0,"email_open_rate":null,"status":"comped","last_seen_at":null,"unsubscribe_url":"https://maya.example.com/unsubscribe/?uuid=2f6e&key=secret",` +
	`"email_suppression":{"suppressed":false,"info":null},"newsletters":[{"id":"6917a2c8d9e40001a3b50131","name":"Letters","description":null,"status":"active"}]}`

// Responses become results: members.0, pages by number, empty 204s.
func TestGhostResults(t *testing.T) {
	t.Parallel()
	c := ghost(t)
	result := func(resource, name, body string) map[string]any {
		t.Helper()
		got, err := method(t, c, resource, name).Result([]byte(body))
		must.OK(t, err)
		members, _ := value(t, got).(map[string]any)
		return members
	}
	member := result("members", "get", `{"members":[`+fullMember+`]}`)
	if member["id"] != "6917a2c8d9e40001a3b50101" || member["name"] != nil || member["createdAt"] != "2026-11-16T09:30:00.000Z" || member["status"] != "comped" {
		t.Errorf("%v", member)
	}
	if text := fmt.Sprint(member); strings.Contains(text, "key=secret") {
		t.Errorf("the result has the URL that unsubscribes: %s", text)
	}
	me := result("me", "get", `{"users":[{"id":"1","name":"Maya","slug":"maya","email":"maya@example.com","profile_image":"https://maya.example.com/content/images/a.png","cover_image":null,"bio":null,`+
		`"website":null,"location":null,"facebook":null,"twitter":null,"accessibility":null,"status":"active","meta_title":null,"meta_description":null,"tour":null,`+
		`"last_seen":"2026-11-16T09:30:00.000Z","comment_notifications":true,"created_at":"2026-11-16T09:00:00.000Z","updated_at":"2026-11-16T09:30:00.000Z",`+
		`"roles":[{"id":"6917a2c8d9e40001a3b50141","name":"Owner","description":"Blog Owner","created_at":"2026-11-16T09:00:00.000Z","updated_at":"2026-11-16T09:00:00.000Z"}],`+
		`"url":"https://maya.example.com/404/"}]}`)
	// These are the members that the driver reads as the identity.
	if me["id"] != "1" || me["username"] != "maya" || me["name"] != "Maya" || me["isCreator"] != true || me["avatarUrl"] == nil || me["role"] != "Owner" {
		t.Errorf("%v", me)
	}
	const pagination = `"meta":{"pagination":{"page":%d,"limit":15,"pages":3,"total":31,"next":%s,"prev":null}}`
	for page, want := range map[int]any{1: "2", 2: "3", 3: nil, 9: nil} {
		// Past the end, Ghost still names a next page.
		got := result("members", "list", `{"members":[`+fullMember+`],`+fmt.Sprintf(pagination, page, "10")+`}`)
		if items, _ := got["items"].([]any); got["nextCursor"] != want || got["hasMore"] != (want != nil) || len(items) != 1 {
			t.Errorf("page %d: %v", page, got["nextCursor"])
		}
	}
	if got := result("members", "delete", ``); got["deleted"] != true {
		t.Errorf("%v", got)
	}
	if got := result("members", "addLabel", `{"bulk":{"action":"addLabel","meta":{"stats":{"successful":3,"unsuccessful":0},"unsuccessfulIds":[],"errors":[]}}}`); fmt.Sprint(got["successful"]) != "3" {
		t.Errorf("%v", got)
	}
	if got := result("members", "getSignInUrl", `{"member_signin_urls":[{"member_id":"6917a2c8d9e40001a3b50101","url":"https://maya.example.com/members/?token=x"}]}`); got["url"] != "https://maya.example.com/members/?token=x" {
		t.Errorf("%v", got)
	}
	if _, err := method(t, c, "members", "get").Result([]byte(`{"members":[]}`)); !errors.Is(err, catalog.ErrChanged) {
		t.Error(err)
	}
}

func ghostError(kind, code, message string) string {
	quoted := "null"
	if code != "" {
		quoted = `"` + code + `"`
	}
	return `{"errors":[{"message":"` + message + `","context":null,"type":"` + kind + `","details":null,"property":null,"help":null,"code":` + quoted +
		`,"id":"a3f6e0d0-c2c1-11f0-9d3f-0b4f6a9f5c11","ghostErrorCode":null}]}`
}

// An error response has the kind of section 6 of the facts about Ghost.
func TestGhostRefusals(t *testing.T) {
	t.Parallel()
	c := ghost(t)
	for name, r := range map[string]struct {
		status int
		body   string
		want   catalog.RefusalKind
		code   string
		wait   time.Duration
	}{
		"dead session":   {403, ghostError("NoPermissionError", "", "Authorization failed"), catalog.RefusedSession, "NoPermissionError", 0},
		"another origin": {400, ghostError("BadRequestError", "", "Request made from incorrect origin. Expected 'https://a' received 'https://b'."), catalog.RefusedSession, "BadRequestError", 0},
		"no right":       {403, ghostError("NoPermissionError", "", "Permission error, cannot browse members."), catalog.RefusedForbidden, "NoPermissionError", 0},
		"suspended":      {403, ghostError("NoPermissionError", "", "Your account was suspended."), catalog.RefusedRestricted, "NoPermissionError", 0},
		"reset":          {401, ghostError("PasswordResetRequiredError", "", "Password reset required."), catalog.RefusedRestricted, "PasswordResetRequiredError", 0},
		"not found":      {404, ghostError("NotFoundError", "", "Resource not found error, cannot read member."), catalog.RefusedNotFound, "NotFoundError", 0},
		"unknown route":  {406, ghostError("RequestNotAcceptableError", "UPDATE_CLIENT", "Request not acceptable."), catalog.RefusedNotFound, "UPDATE_CLIENT", 0},
		"collision":      {409, ghostError("UpdateCollisionError", "UPDATE_COLLISION", "Saving failed! Someone else is editing this post."), catalog.RefusedConflict, "UPDATE_COLLISION", 0},
		"exists":         {422, ghostError("ValidationError", "", "Validation error, cannot save member."), catalog.RefusedRejected, "ValidationError", 0},
		"bad filter":     {400, ghostError("BadRequestError", "", "Error parsing filter"), catalog.RefusedRejected, "BadRequestError", 0},
		"bad file":       {415, ghostError("UnsupportedMediaTypeError", "", "Please select a valid image."), catalog.RefusedRejected, "UnsupportedMediaTypeError", 0},
		"too many":       {429, ghostError("TooManyRequestsError", "", "Too many attempts."), catalog.RefusedRateLimited, "TooManyRequestsError", 10 * time.Minute},
		"error":          {500, ghostError("InternalServerError", "UNEXPECTED_ERROR", "An unexpected error occurred, please try again."), catalog.RefusedError, "UNEXPECTED_ERROR", 0},
		"no mail":        {500, ghostError("EmailError", "ESOCKET", "Failed to send email."), catalog.RefusedError, "ESOCKET", 0},
		"starting":       {503, `<!DOCTYPE html><html><body>We'll be right back.</body></html>`, catalog.RefusedUnavailable, "", 0},
		"no Ghost":       {502, `<html>`, catalog.RefusedUnavailable, "", 0},
		"deleted key":    {401, ghostError("UnauthorizedError", "UNKNOWN_ADMIN_API_KEY", "Unknown Admin API Key"), catalog.RefusedSession, "UNKNOWN_ADMIN_API_KEY", 0},
		"other key":      {401, ghostError("UnauthorizedError", "INVALID_JWT", "Invalid token: invalid signature"), catalog.RefusedSession, "INVALID_JWT", 0},
		"no token":       {400, ghostError("BadRequestError", "INVALID_JWT", "Invalid token"), catalog.RefusedSession, "INVALID_JWT", 0},
		"a text":         {401, `Unauthorized`, catalog.RefusedSession, "", 0},
	} {
		if got := c.Classify(r.status, http.Header{}, []byte(r.body)); got.Kind != r.want || got.Code != r.code || got.RetryAfter != r.wait {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// The message of an error is followed by its context, which is often the only useful part. Rules look at the message.
func TestGhostErrorsKeepTheirContext(t *testing.T) {
	t.Parallel()
	c := ghost(t)
	for body, want := range map[string]string{
		`{"errors":[{"message":"Cannot save member.","context":"Member already exists."}]}`: "Cannot save member. Member already exists.",
		`{"errors":[{"message":"Authorization failed","context":"Sign in."}]}`:              "Authorization failed Sign in.",
		`{"errors":[{"message":"Same.","context":"Same."}]}`:                                "Same.",
		`{"errors":[{"message":"Alone.","context":null}]}`:                                  "Alone.",
		`{"errors":[{"context":"Only context."}]}`:                                          "Only context.",
	} {
		got := c.Classify(http.StatusForbidden, http.Header{}, []byte(body))
		if got.Message != want || (got.Kind == catalog.RefusedSession) != strings.HasPrefix(want, "Authorization failed") {
			t.Errorf("%s: %s %q, want %q", body, got.Kind, got.Message, want)
		}
	}
}

// A refused sign-in has the failure of section 2 of the facts about Ghost.
func TestGhostFailures(t *testing.T) {
	t.Parallel()
	c := ghost(t)
	for name, r := range map[string]struct {
		step   string
		status int
		body   string
		want   string
		wait   time.Duration
	}{
		"wrong password": {catalog.StepCredentials, 422, ghostError("ValidationError", "PASSWORD_INCORRECT", "Your password is incorrect."), "invalid_credentials", 0},
		"unknown user":   {catalog.StepCredentials, 404, ghostError("NotFoundError", "", "There is no user with that email address."), "invalid_credentials", 0},
		"suspended":      {catalog.StepCredentials, 403, ghostError("NoPermissionError", "", "Your account was suspended."), "account_banned", 0},
		"locked":         {catalog.StepCredentials, 401, ghostError("PasswordResetRequiredError", "", "Password reset required."), "account_locked", 0},
		"too often":      {catalog.StepCredentials, 429, ghostError("TooManyRequestsError", "", "Too many login attempts. Please wait 10 minutes before trying again."), "upstream_rate_limited", 10 * time.Minute},
		"wrong code":     {catalog.StepCode, 401, "Unauthorized", "wrong_code", 0},
		"too many codes": {catalog.StepCode, 429, ghostError("TooManyRequestsError", "", "Too many attempts."), "two_factor_locked", time.Hour},
		// The code that was sent before still works, so the attempt must not end.
		"too many resends": {catalog.StepResend, 429, ghostError("TooManyRequestsError", "", "Too many attempts."), "step_refused", time.Hour},
		"no mail":          {catalog.StepCredentials, 500, ghostError("EmailError", "ESOCKET", "Failed to send email."), "", 0},
		"starting":         {catalog.StepCredentials, 503, "<html>", "", 0},
	} {
		refusal := c.Classify(r.status, http.Header{}, []byte(r.body))
		if code, wait := c.SignIn.Failure(r.step, r.status, refusal); code != r.want || wait != r.wait {
			t.Errorf("%s: %q after %s", name, code, wait)
		}
	}
}

// Ghost asks for a code with either of two codes of its own. Nothing else is a challenge.
func TestGhostChallenge(t *testing.T) {
	t.Parallel()
	c := ghost(t)
	for body, want := range map[string]bool{
		ghostError("Needs2FAError", "2FA_NEW_DEVICE_DETECTED", "User must verify session to login."): true,
		ghostError("Needs2FAError", "2FA_TOKEN_REQUIRED", "User must verify session to login."):      true,
		ghostError("NoPermissionError", "", "Authorization failed"):                                  false,
		"Created": false,
	} {
		ch, ok := c.SignIn.Challenge([]byte(body), c.Classify(403, http.Header{}, []byte(body)))
		if ok != want || ok && (ch.Channel != catalog.ChannelEmail || !ch.Sent || ch.Lasts != 10*time.Minute || !ch.Token.Empty()) {
			t.Errorf("%s: %+v %v", body, ch, ok)
		}
	}
	answer, err := c.SignIn.Answer(secret.String{}, secret.New("123456"))
	must.OK(t, err)
	if answer.Method != http.MethodPut || answer.Path != "/ghost/api/admin/session/verify/" || string(answer.Body) != `{"token":"123456"}` {
		t.Errorf("%s %s", answer.Method, answer.Path) // the body is a text: Ghost refuses the code as a number
	}
	resend, err := c.SignIn.Resend(secret.String{})
	must.OK(t, err)
	if resend.Method != http.MethodPost || resend.Path != "/ghost/api/admin/session/verify/" || resend.Body != nil {
		t.Errorf("%s %s", resend.Method, resend.Path)
	}
	if s := c.Session; s.Send.Get("Origin") != "$origin" || s.Send.Get("Accept-Version") != "" || !slices.Equal(s.Cookies.Remember, s.Cookies.Kept) {
		t.Errorf("%+v", s)
	}
}

func ghostFeed(t testing.TB, c *catalog.Catalog, name string) *catalog.Feed {
	t.Helper()
	i := slices.IndexFunc(c.Poll.Feeds, func(f *catalog.Feed) bool { return f.Name == name })
	if i < 0 {
		t.Fatalf("there is no feed %s", name)
	}
	return c.Poll.Feeds[i]
}

// The activity of members is asked for by id, so rows of one second are whole and rows that are dated back are found.
func TestGhostActivity(t *testing.T) {
	t.Parallel()
	c := ghost(t)
	feed := ghostFeed(t, c, "activity")
	now := time.Date(2026, 11, 16, 9, 30, 0, 0, time.UTC)
	second := fmt.Sprintf("%08x", now.Unix())
	req := feed.Request(now.Add(-2*time.Minute), time.Time{})
	query, err := url.ParseQuery(req.Query)
	must.OK(t, err)
	if since := fmt.Sprintf("%08x", now.Add(-2*time.Minute).Unix()); req.Path != "/ghost/api/admin/members/events/" || query.Get("limit") != fmt.Sprint(feed.Limit) ||
		!strings.Contains(query.Get("filter"), "id:>'"+since+"0000000000000000'") || !strings.Contains(query.Get("filter"), "aggregated_click_event") {
		t.Errorf("%s?%s", req.Path, query)
	}

	const who = `"member_id":"6917a2c8d9e40001a3b50101","member":{"id":"6917a2c8d9e40001a3b50101","uuid":"2f6e","name":"Iris","email":"iris@example.com","avatar_image":"https://www.gravatar.com/avatar/1"}`
	at := func(created, id, more string) string {
		return `"data":{"id":"` + second + id + `","created_at":"` + created + `",` + more + `}`
	}
	const fresh, old = "2026-11-16T09:30:00.000Z", "2019-02-03T04:05:06.000Z"
	rows := []struct{ row, key, kind, at, has string }{
		// Three of one second; the first two have one id but different types, and the second is dated back by an import.
		{`{"type":"signup_event",` + at(fresh, "c8d9e40001a3b501", who+`,"source":"member","attribution":{"id":null,"type":null,"url":null,"title":null,"referrer_source":"Direct","referrer_medium":null,"referrer_url":null}`) + `}`,
			"signup_event", "memberCreated", fresh, `"memberId":"6917a2c8d9e40001a3b50101"`},
		{`{"type":"newsletter_event",` + at(old, "c8d9e40001a3b501", who+`,"subscribed":true,"source":"import","newsletter_id":"6917a2c8d9e40001a3b50131","newsletter":{"id":"6917a2c8d9e40001a3b50131","name":"Letters"}`) + `}`,
			"newsletter_event", "newsletterSubscribed", old, `"newsletterName":"Letters"`},
		{`{"type":"newsletter_event",` + at(fresh, "c8d9e40001a3b502", who+`,"subscribed":false,"source":"member","newsletter_id":"6917a2c8d9e40001a3b50131","newsletter":{"id":"6917a2c8d9e40001a3b50131","name":"Letters"}`) + `}`,
			"newsletter_event", "newsletterUnsubscribed", fresh, `"newsletterId":"6917a2c8d9e40001a3b50131"`},
		{`{"type":"later_event",` + at(fresh, "c8d9e40001a3b513", who) + `}`, "later_event", catalog.Unknown, fresh, `"name":"later_event"`},
	}
	list := make([]string, len(rows))
	for i, r := range rows {
		list[i] = r.row
	}
	items, err := c.Items(feed, []byte(`{"events":[`+strings.Join(list, ",")+`],"meta":{"pagination":{"limit":1000,"total":4,"pages":1,"page":null,"next":null,"prev":null}}}`))
	must.OK(t, err)
	keys := map[string]bool{}
	for i, r := range rows {
		item := items[i]
		created, err := time.Parse(time.RFC3339, r.at)
		must.OK(t, err)
		if item.Err != nil || !strings.HasPrefix(item.Key, "activity:"+r.key+":"+second) || item.Event.Kind != r.kind || item.Event.Class != catalog.Durable ||
			!item.At.Equal(now) || !item.Event.At.Equal(created) || !bytes.Contains(item.Event.Data, []byte(r.has)) {
			t.Errorf("%s: %+v %s", r.key, item, item.Event.Data)
		}
		keys[item.Key] = true
	}
	if len(keys) != len(rows) || len(items) != len(rows) {
		t.Errorf("%d items, %d keys", len(items), len(keys))
	}
}

// Ghost compares times as texts, so a T in one would match nothing.
func TestGhostTimes(t *testing.T) {
	t.Parallel()
	for _, feed := range ghost(t).Poll.Feeds {
		query, err := url.ParseQuery(feed.Request(time.Unix(1794696600, 0), time.Unix(1794696660, 0)).Query)
		must.OK(t, err)
		if strings.Contains(query.Get("filter"), "2026-11-14T") || query.Get("limit") != fmt.Sprint(feed.Limit) {
			t.Errorf("%s: %s", feed.Name, query)
		}
	}
}

// Every kind of event comes from an item of its feed.
func TestGhostEvents(t *testing.T) {
	t.Parallel()
	c := ghost(t)
	feeds := map[string]*catalog.Feed{}
	for _, f := range c.Poll.Feeds {
		feeds[f.Name] = f
	}
	// activity returns an item of the feeds of members.
	activity := func(kind, data string) string {
		return fmt.Sprintf(`{"type":"%s","data":{"id":"6afcf58446efe079d9807535","created_at":"2026-11-18T00:47:00.000Z",%s}}`, kind, data)
	}
	post := func(status string) string { return `{"status":"` + status + `",` + ghostPost + `}` }
	email := func(status string) string {
		return `{"id":"6afcf59046efe079d9807fe5","post_id":"6afcf59046efe079d9807fdc","newsletter_id":"6afcf58046efe079d9807262","status":"` + status +
			`","subject":"Trains","error":null,"email_count":3,"created_at":"2026-11-18T00:47:12.000Z","updated_at":"2026-11-18T00:47:13.000Z"}`
	}
	seen := map[string]bool{catalog.Unknown: true}
	for _, x := range []struct{ feed, item, kind, data string }{
		{"activity", activity("signup_event", `"source":"member","attribution":{"id":null,"type":null,"url":"/","title":null,"referrer_source":"Direct","referrer_medium":null,"referrer_url":null},`+ghostMember), "memberCreated", `"source":"member"`},
		{"activity", activity("newsletter_event", `"subscribed":true,"source":"member","newsletter_id":"6afcf58046efe079d9807262","newsletter":{"name":"Letters"},`+ghostMember), "newsletterSubscribed", `"newsletterName":"Letters"`},
		{"activity", activity("newsletter_event", `"subscribed":false,"source":"admin","newsletter_id":null,`+ghostMember), "newsletterUnsubscribed", `"newsletterId":null`},
		{"activity", activity("login_event", ghostMember), "memberLoggedIn", `"email":"ada@example.com"`},
		{"activity", activity("email_change_event", `"from_email":"a@x.test","to_email":"b@x.test",`+ghostMember), "memberEmailChanged", `"toEmail":"b@x.test"`},
		{"activity", activity("comment_event", `"html":"<p>Hi</p>","status":"published","in_reply_to_id":null,"edited_at":null,"post":{"id":"6afcf59046efe079d9807fdc","title":"Trains","url":"https://x.test/"},`+ghostMember), "commentCreated", `"html":"\u003cp\u003eHi`},
		{"activity", activity("click_event", `"post":{"id":"6afcf59046efe079d9807fdc","title":"Trains"},"link":{"from":"/r/1","to":"https://x.test/"},`+ghostMember), "newsletterLinkClicked", `"url":"https://x.test/"`},
		{"activity", activity("feedback_event", `"score":1,"post":{"id":"6afcf59046efe079d9807fdc","title":"Trains"},`+ghostMember), "feedbackGiven", `"positive":true`},
		{"activity", activity("subscription_event", `"type":"created","from_plan":null,"to_plan":"price_1","currency":"usd","mrr_delta":500,"signup":true,"tierName":"Patrons","attribution":null,`+ghostMember), "subscriptionStarted", `"mrrDeltaCents":500`},
		{"activity", activity("subscription_event", `"type":"canceled","from_plan":"price_1","to_plan":"price_1","currency":"usd","mrr_delta":-500,"tierName":null,`+ghostMember), "subscriptionCanceled", `"mrrDeltaCents":-500`},
		{"activity", activity("subscription_event", `"type":null,"from_plan":"price_1","to_plan":null,"currency":"usd","mrr_delta":-500,`+ghostMember), "subscriptionChanged", `"change":null`},
		{"activity", activity("payment_event", `"amount":500,"currency":"usd","source":"stripe",`+ghostMember), "paymentReceived", `"amountCents":500`},
		{"activity", activity("donation_event", `"amount":700,"currency":"usd","name":null,"email":"ada@example.com","donation_message":"Thanks",`+ghostMember), "donationReceived", `"message":"Thanks"`},
		{"activity", activity("email_complaint_event", `"email_id":"6afcf59046efe079d9807fe5","email_address":"ada@example.com",`+ghostMember), "emailComplained", `"emailAddress":"ada@example.com"`},
		{"activity", activity("gift_event", ghostMember), catalog.Unknown, `"name":"gift_event"`},
		{"published", post("published"), "postPublished", `"postId":"6afcf59046efe079d9807fdc"`},
		{"posts", post("scheduled"), "postScheduled", `"scheduledAt":"2026-11-18T00:47:10.000Z"`},
		{"posts", post("draft"), "postDraftSaved", `"status":"draft"`},
		{"posts", post("sent"), "postUpdated", `"status":"sent"`},
		{"newsletters", email("submitted"), "newsletterSent", `"recipients":3`},
		{"newsletters", email("failed"), "newsletterFailed", `"error":null`},
		{"mails", activity("email_delivered_event", ghostMail), "emailDelivered", `"memberEmail":"ada@example.com"`},
		{"mails", activity("email_opened_event", ghostMail), "emailOpened", `"postId":"6afcf59046efe079d9807fdc"`},
		// The member has been deleted since.
		{"mails", activity("email_failed_event", `"member_id":"`+ghostID+`","member":{},"email":{}`), "emailFailed", `"memberEmail":null`},
	} {
		list := map[string]string{"published": "posts", "posts": "posts", "newsletters": "emails"}[x.feed]
		if list == "" {
			list = "events"
		}
		items, err := c.Items(feeds[x.feed], []byte(`{"`+list+`":[`+x.item+`]}`))
		must.OK(t, err)
		e := items[0].Event
		data := strings.NewReplacer("<", `\u003c`, ">", `\u003e`).Replace(string(e.Data))
		if items[0].Err != nil || e.Kind != x.kind || e.At.IsZero() || !json.Valid(e.Data) || !strings.Contains(data, x.data) {
			t.Errorf("%s: %s %v %s, want %s with %s", x.feed, e.Kind, items[0].Err, e.Data, x.kind, x.data)
		}
		seen[x.kind] = true
	}
	for _, k := range c.Events() {
		if !seen[k.Kind] {
			t.Errorf("no item becomes %s", k.Kind)
		}
	}
}

// The keys of items distinguish what happened: the mails of a recipient have one id for all their events, and a post
// that is edited is not published again.
func TestGhostKeys(t *testing.T) {
	t.Parallel()
	c := ghost(t)
	edited := strings.Replace(ghostPost, `"updated_at":"2026-11-18T00:47:12.000Z"`, `"updated_at":"2026-11-19T00:00:00.000Z"`, 1)
	for feed, x := range map[string]struct {
		body string
		same bool
	}{
		"mails": {`{"events":[{"type":"email_delivered_event","data":{"id":"6afcf58446efe079d9807535","created_at":"2026-11-18T00:47:00.000Z",` + ghostMail +
			`}},{"type":"email_opened_event","data":{"id":"6afcf58446efe079d9807535","created_at":"2026-11-18T00:49:00.000Z",` + ghostMail + `}}]}`, false},
		"posts":     {`{"posts":[{"status":"published",` + ghostPost + `},{"status":"published",` + edited + `}]}`, false},
		"published": {`{"posts":[{"status":"published",` + ghostPost + `},{"status":"published",` + edited + `}]}`, true},
	} {
		f := c.Poll.Feeds[slices.IndexFunc(c.Poll.Feeds, func(f *catalog.Feed) bool { return f.Name == feed })]
		items, err := c.Items(f, []byte(x.body))
		must.OK(t, err)
		if (items[0].Key == items[1].Key) != x.same {
			t.Errorf("%s: %s and %s", feed, items[0].Key, items[1].Key)
		}
	}
	since := time.Date(2026, 11, 18, 0, 47, 0, 0, time.UTC)
	if q := c.Poll.Feeds[0].Request(since, since.Add(time.Second)).Query; !strings.Contains(q, "id%3A%3E%276afcf5840000000000000000%27%2Bid%3A%3C%276afcf5850000000000000000%27") {
		t.Error(q)
	}
}

// A file goes to the endpoint of its kind.
func TestGhostUploads(t *testing.T) {
	t.Parallel()
	c := ghost(t)
	for media, want := range map[string]string{
		"image/png": "/images/upload/", "video/mp4": "/media/upload/", "audio/mpeg": "/media/upload/", "application/pdf": "/files/upload/", "": "/files/upload/",
	} {
		form, ok := c.Files.FormFor(media)
		if !ok {
			t.Fatalf("%s: there is no form", media)
		}
		args, err := form.Args()
		must.OK(t, err)
		if req, _ := form.Request(args); req.Method != http.MethodPost || req.Path != "/ghost/api/admin"+want || form.Field != "file" {
			t.Errorf("%s: %s %s", media, req.Method, req.Path)
		}
	}
	form, _ := c.Files.FormFor("image/png")
	result, err := form.Method.Result([]byte(`{"images":[{"url":"https://maya.example.com/content/images/2026/11/a.png","ref":null}]}`))
	must.OK(t, err)
	if address, ok := form.URL(result); !ok || address != "https://maya.example.com/content/images/2026/11/a.png" {
		t.Errorf("%s %v", address, ok)
	}
}
