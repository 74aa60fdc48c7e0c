package catalog_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

const callBody = `{"userId":"4242000000000000001","slug":"s","text":"Thank you!","mediaIds":["1","2"],"priceCents":1250}`

// Parses the body of a write with five arguments and builds the request.
func BenchmarkParseAndBind(b *testing.B) {
	m := method(b, small(b), "notes", "create")
	body := []byte(callBody)
	b.ReportAllocs()
	for b.Loop() {
		args, err := m.Parse(body, false)
		must.OK(b, err)
		args.Request()
	}
}

// Parses the query of a read and builds the request.
func BenchmarkQueryAndBind(b *testing.B) {
	m := method(b, small(b), "notes", "list")
	values := url.Values{"order": {"oldest"}, "userIds": {"1,2"}, "limit": {"50"}}
	b.ReportAllocs()
	for b.Loop() {
		args, err := m.FromQuery(values, false)
		must.OK(b, err)
		args.Request()
	}
}

// For comparison: the JSON Schema validator of the tests on the same body, without building a request.
func BenchmarkValidatorOracle(b *testing.B) {
	schema := compileSchema(b, method(b, small(b), "notes", "create").ArgsSchema())
	body := []byte(callBody)
	b.ReportAllocs()
	for b.Loop() {
		var v any
		must.OK(b, json.Unmarshal(body, &v))
		must.OK(b, schema.Validate(v))
	}
}

// messagePage returns a page of the sandbox's messages, every fourth with a picture.
func messagePage(n int) []byte {
	const message = `{"id":%d,"chat":{"id":3438267820000000001},"author_id":3438267820000000001,"recipient_id":3438267810000000001,` +
		`"text":"Thank you so much for the lovely message, see you tonight! 😀","attachments":[%s],"price":12.5,"is_locked":false,"is_opened":true,` +
		`"is_free":false,"is_tip":false,"tip":null,"is_favorite":true,"is_pinned":false,"reply_to_id":null,"campaign_id":null,` +
		`"created_at":"2026-11-14T22:50:00.123Z","changed_at":null,"can_unsend_until":"2026-11-15T22:50:00.000Z"}`
	const media = `{"id":3438267821200000003,"kind":"image","status":"done","width":1080,"height":1350,"duration":null,"size":345678,` +
		`"thumb":"https://cdn.sandbox.test/thumb/3438267821200000003.jpg","folder_ids":[1,2],"created_at":"2026-11-01T10:00:00Z"}`
	list := make([]string, n)
	for i := range list {
		attached := ""
		if i%4 == 0 {
			attached = media
		}
		list[i] = fmt.Sprintf(message, 3438267821300000000+i, attached)
	}
	return []byte(`{"list":[` + strings.Join(list, ",") + `],"has_more":true}`)
}

// Maps a page of twenty messages of the sandbox.
func BenchmarkResultMessages(b *testing.B) {
	c, err := catalog.Sandbox()
	must.OK(b, err)
	m := method(b, c, "messages", "list")
	page := messagePage(20)
	b.SetBytes(int64(len(page)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := m.Result(page); err != nil {
			b.Fatal(err)
		}
	}
}

// Parses the body of messages.send and builds the request.
func BenchmarkParseAndBindMessage(b *testing.B) {
	c, err := catalog.Sandbox()
	must.OK(b, err)
	m := method(b, c, "messages", "send")
	body := []byte(`{"chatId":"3438267820000000001","text":"Thank you!","mediaIds":["1","2"],"priceCents":1250}`)
	b.ReportAllocs()
	for b.Loop() {
		args, err := m.Parse(body, false)
		must.OK(b, err)
		args.Request()
	}
}

// Decodes one frame.
func BenchmarkDecode(b *testing.B) {
	c := small(b)
	frame := []byte(`{"id":17,"type":"note.new","ts":1700000000.25,"body":{"note":` + theirNote + `}}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Decode(frame); err != nil {
			b.Fatal(err)
		}
	}
}

// Loads the sandbox's manifest, as a node does when it starts.
func BenchmarkLoad(b *testing.B) {
	for b.Loop() {
		if _, err := catalog.Load(os.DirFS("manifests/sandbox")); err != nil {
			b.Fatal(err)
		}
	}
}
