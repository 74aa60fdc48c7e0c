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
	for name, body := range map[string]map[string]any{
		"medium":       {"attachments": []int64{1}},
		"preview":      {"previews": []int64{1}},
		"release form": {"release_ids": []int64{1}},
		"reply":        {"reply_to_id": 1},
		"gif":          {"gif_id": 1},
		"price":        {"price": -1},
	} {
		if got := c.Do("POST", chat, body); got.Status != http.StatusUnprocessableEntity {
			t.Errorf("%s: %d %v", name, got.Status, got.Body)
		}
	}
	if got := c.Do("POST", "/chats/1/messages", map[string]any{"text": "Hello?"}); got.Status != http.StatusNotFound {
		t.Errorf("an unknown user: %d", got.Status)
	}
	c.Must("PUT", path("/users/%d/block", c.Person(1)), nil)
	if got := c.Do("POST", chat, map[string]any{"text": "Hello?"}); got.Status != http.StatusForbidden {
		t.Errorf("a blocked user: %d", got.Status)
	}
	if p.TryOrder(login, "chat.message", fanaction.Input{User: c.Person(1)}) == nil {
		t.Error("a blocked user wrote")
	}
}

func TestAChatIsHiddenUntilSomebodyWritesAndDeletedForGood(t *testing.T) {
	t.Parallel()
	p := sandboxtest.New(t, nil)
	c := p.SignIn(login)
	fan := c.Person(1)
	chat := path("/chats/%d", fan)
	top := func() string { return c.Must("GET", "/chats", nil).Text("list", 0, "id") }
	c.Must("POST", chat+"/messages", map[string]any{"text": "Hello!"})
	c.Must("PUT", chat+"/hidden", nil)
	if top() == fmt.Sprint(fan) {
		t.Fatal("a hidden chat is listed")
	}
	p.Order(login, "chat.message", fanaction.Input{User: fan, Text: "Back again"})
	if f := c.Frame("chat.message"); fmt.Sprint(f["user"].(map[string]any)["id"]) != fmt.Sprint(fan) {
		t.Fatalf("the frame: %v", f)
	}
	if top() != fmt.Sprint(fan) {
		t.Fatal("a new message did not bring the chat back")
	}
	c.Must("DELETE", chat, nil)
	c.Must("DELETE", chat, nil)
	if got := c.Do("GET", chat, nil); got.Status != http.StatusNotFound {
		t.Fatalf("a deleted chat: %d", got.Status)
	}
	c.Must("POST", chat+"/messages", map[string]any{"text": "From the start"})
	if got := c.Must("GET", chat+"/messages", nil); got.Text("list", 0, "text") != "From the start" || got.Get("list", 1) != nil {
		t.Fatalf("the chat starts with %v", got.Body)
	}
}

func TestUnreadChatsAreCounted(t *testing.T) {
	t.Parallel()
	p := sandboxtest.New(t, nil)
	c := p.SignIn(login)
	unread := func() string { return c.Must("GET", "/chats/unread", nil).Text("unread_chats") }
	if got := c.Must("POST", "/chats/read", nil).Text("count"); got == "0" {
		t.Fatal("no chat was unread at the start")
	}
	if f := c.Frame("chat.read"); f["all"] != true || f["chat_id"] != nil {
		t.Fatalf("the frame: %v", f)
	}
	if got := unread(); got != "0" {
		t.Fatalf("%s chats are unread after all were read", got)
	}
	c.Frame("counts.changed")
	p.Order(login, "chat.message", fanaction.Input{User: c.Person(3)})
	p.Order(login, "chat.message", fanaction.Input{User: c.Person(3)})
	if f := c.Frame("counts.changed"); fmt.Sprint(f["unread_chats"]) != "1" {
		t.Fatalf("the frame: %v", f)
	}
	if got := c.Must("GET", "/chats?tab=unread", nil); got.Text("list", 0, "unread_count") != "2" || got.Get("list", 1) != nil {
		t.Fatalf("unread: %v", got.Body)
	}
	p.Order(login, "chat.message_removed", fanaction.Input{User: c.Person(3)})
	if got := c.Must("GET", path("/chats/%d", c.Person(3)), nil).Text("unread_count"); got != "1" {
		t.Fatalf("%s unread after one of two was deleted", got)
	}
	c.Must("PUT", path("/chats/%d/read", c.Person(3)), nil)
	c.Must("DELETE", path("/chats/%d/read", c.Person(4)), nil)
	if got := c.Must("GET", "/chats?tab=unread", nil); got.Text("list", 0, "id") != fmt.Sprint(c.Person(4)) || unread() != "1" {
		t.Fatalf("unread: %v", got.Body)
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
	if got := c.Do("DELETE", message, nil); got.Status != http.StatusConflict {
		t.Fatalf("unsending a paid message: %d", got.Status)
	}
	theirs := path("/chats/%d/messages/%d", fan, row.SeedID(c.Session.Owner, row.KindMessage, 1))
	if got := c.Do("DELETE", theirs, nil); got.Status != http.StatusForbidden {
		t.Fatalf("unsending a message of the fan: %d", got.Status)
	}
	if got := c.Must("GET", path("/messages/%d/buyers", id), nil); got.Text("list", 0, "buyer", "id") != fmt.Sprint(fan) || got.Get("list", 1) != nil {
		t.Fatalf("buyers: %v", got.Body)
	}
	if spent() == before {
		t.Fatal("the fan's spending has not grown")
	}
}
