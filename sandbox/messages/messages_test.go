package messages_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stagedoor/stagedoor/sandbox/fanaction"
	"github.com/stagedoor/stagedoor/sandbox/row"
	"github.com/stagedoor/stagedoor/sandbox/sandboxtest"
)

const login = "ok@sandbox.test"

func path(format string, ids ...any) string { return fmt.Sprintf(format, ids...) }

func TestWhatDoesNotExistIsNotSent(t *testing.T) {
	t.Parallel()
	p := sandboxtest.New(t, nil)
	c := p.SignIn(login)
	chat := path("/chats/%d/messages", c.Person(1))
	for _, body := range []map[string]any{
		{"attachments": []int64{1}}, {"previews": []int64{1}}, {"release_ids": []int64{1}},
		{"reply_to_id": 1}, {"gif_id": 1}, {"price": -1},
	} {
		c.Refuse(http.StatusUnprocessableEntity, "POST", chat, body)
	}
	c.Refuse(http.StatusNotFound, "POST", "/chats/1/messages", map[string]any{"text": "Hello?"})
	c.Must("PUT", path("/users/%d/block", c.Person(1)), nil)
	c.Refuse(http.StatusForbidden, "POST", chat, map[string]any{"text": "Hello?"})
	if p.TryOrder(login, "chat.message", fanaction.Input{User: c.Person(1)}) == nil {
		t.Error("a blocked user wrote")
	}
}

func TestAFanBringsAHiddenChatBackAndADeletedChatStartsAgain(t *testing.T) {
	t.Parallel()
	p := sandboxtest.New(t, nil)
	c := p.SignIn(login)
	fan := c.Person(1)
	chat := path("/chats/%d", fan)
	c.Must("PUT", chat+"/hidden", nil)
	p.Order(login, "chat.message", fanaction.Input{User: fan, Text: "Back again"})
	if top := c.Must("GET", "/chats", nil).Text("list", 0, "id"); top != fmt.Sprint(fan) {
		t.Fatalf("the first chat is %s", top)
	}
	c.Must("DELETE", chat, nil)
	c.Must("DELETE", chat, nil)
	c.Must("POST", chat+"/messages", map[string]any{"text": "From the start"})
	if got := c.All(chat + "/messages?limit=100"); len(got) != 1 {
		t.Fatalf("the chat has %d messages", len(got))
	}
}

func TestUnreadMessagesAreCountedPerChat(t *testing.T) {
	t.Parallel()
	p := sandboxtest.New(t, nil)
	c := p.SignIn(login)
	c.Must("POST", "/chats/read", nil)
	c.Frame("counts.changed")
	p.Order(login, "chat.message", fanaction.Input{User: c.Person(3)})
	p.Order(login, "chat.message", fanaction.Input{User: c.Person(3)})
	if f := c.Frame("counts.changed"); fmt.Sprint(f["unread_chats"]) != "1" {
		t.Fatalf("the frame: %v", f)
	}
	if got := c.All("/chats?tab=unread"); len(got) != 1 || fmt.Sprint(got[0]["unread_count"]) != "2" {
		t.Fatalf("unread: %v", got)
	}
	p.Order(login, "chat.message_removed", fanaction.Input{User: c.Person(3)})
	if got := c.Must("GET", path("/chats/%d", c.Person(3)), nil).Text("unread_count"); got != "1" {
		t.Fatalf("%s unread after one of two was deleted", got)
	}
}

func TestAMessageIsPaidForOnce(t *testing.T) {
	t.Parallel()
	p := sandboxtest.New(t, nil)
	c := p.SignIn(login)
	fan := c.Person(1)
	spent := func() string { return c.Must("GET", path("/fans/%d/spending", fan), nil).Text("messages") }
	before := spent()
	sent := c.Must("POST", path("/chats/%d/messages", fan), map[string]any{"text": "Only for you", "price": 20})
	id := sandboxtest.Number(t, sent.Get("id"))
	p.Order(login, "chat.message_bought", fanaction.Input{Ref: id})
	bought := c.Frame("chat.message_bought")
	if fmt.Sprintf("%v %v", bought["price"], bought["net"]) != "20 16" {
		t.Fatalf("the frame: %v", bought)
	}
	if p.TryOrder(login, "chat.message_bought", fanaction.Input{Ref: id}) == nil {
		t.Fatal("the message was paid for twice")
	}
	message := path("/chats/%d/messages/%d", fan, id)
	if got := c.Must("GET", message, nil); got.Get("is_opened") != true || got.Get("can_unsend_until") != nil {
		t.Fatalf("the message: %v", got.Body)
	}
	c.Refuse(http.StatusConflict, "DELETE", message, nil)
	theirs := path("/chats/%d/messages/%d", fan, row.SeedID(c.Session.Owner, row.KindMessage, 1))
	c.Refuse(http.StatusForbidden, "DELETE", theirs, nil)
	if got := c.Must("GET", path("/messages/%d/buyers", id), nil); got.Text("list", 0, "buyer", "id") != fmt.Sprint(fan) || got.Get("list", 1) != nil {
		t.Fatalf("buyers: %v", got.Body)
	}
	if spent() == before {
		t.Fatal("the fan's spending has not grown")
	}
}
