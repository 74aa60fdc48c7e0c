// Command scenario is an end-to-end test that every client library passes against a running system: connect, call,
// stream, drop the connection, resume on another node, verify a webhook, page through a list, disconnect.
//
// It requires STAGEDOOR_URLS (or STAGEDOOR_URL) and STAGEDOOR_API_KEY, as in .dev/env.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"time"

	stagedoor "github.com/stagedoor/stagedoor/client/go"
)

// timeout limits each wait.
const timeout = 60 * time.Second

func main() {
	nodes := strings.FieldsFunc(os.Getenv("STAGEDOOR_URLS")+" "+os.Getenv("STAGEDOOR_URL"), func(r rune) bool { return r == ' ' || r == ',' })
	if len(nodes) == 0 {
		fmt.Fprintln(os.Stderr, "STAGEDOOR_URLS is not set: source .dev/env")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	s := &scenario{nodes: nodes, mark: "go" + strconv.FormatInt(time.Now().UnixMilli(), 36)}
	if err := s.run(ctx); err != nil {
		os.Exit(1) // the failed step printed the error
	}
	fmt.Println("the scenario passed")
}

type scenario struct {
	nodes  []string
	mark   string
	client *stagedoor.Client
}

// node returns node n, starting over after the last.
func (s *scenario) node(n int) string { return s.nodes[n%len(s.nodes)] }

// step runs a step and prints a line with its name, duration and result.
func step(name string, work func() (string, error)) error {
	began := time.Now()
	result, err := work()
	if err != nil {
		fmt.Printf("FAIL  %s: %v\n", name, err)
		return err
	}
	fmt.Println(strings.TrimRight(fmt.Sprintf("ok    %-34s %6d ms  %s", name, time.Since(began).Milliseconds(), result),
		" "))
	return nil
}

// steps runs steps until one fails.
func steps(all ...func() error) error {
	for _, one := range all {
		if err := one(); err != nil {
			return err
		}
	}
	return nil
}

func (s *scenario) run(ctx context.Context) error {
	client, err := stagedoor.New(stagedoor.Options{BaseURL: s.node(0)})
	if err != nil {
		return err
	}
	s.client = client
	var id string
	if err := step("connect with email and password", func() (string, error) {
		id, err = s.connect(ctx)
		return id, err
	}); err != nil {
		return err
	}
	err = s.withAccount(ctx, client.Account(id))
	return errors.Join(err, step("disconnect", func() (string, error) {
		_, err := client.Accounts.Disconnect(ctx, id)
		return "", err
	}))
}

func (s *scenario) connect(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	started, err := s.client.Connect.Login(ctx, stagedoor.ConnectLoginParams{
		Email: "ok+" + s.mark + "@sandbox.test", Password: "good", Label: "Scenario (Go)",
	})
	if err != nil {
		return "", err
	}
	attempt, err := s.client.Connect.WaitFor(ctx, started.AttemptID, stagedoor.UntilEnd)
	if err != nil {
		return "", err
	}
	if attempt.State != "completed_success" || attempt.AccountID == nil {
		return "", fmt.Errorf("the attempt ended as %s: %+v", attempt.State, attempt.Failure)
	}
	return *attempt.AccountID, nil
}

func (s *scenario) withAccount(ctx context.Context, account *stagedoor.AccountClient) error {
	return steps(
		func() error {
			return step("read the profile", func() (string, error) {
				me, err := account.Me.Get(ctx)
				if err != nil {
					return "", err
				}
				return me.Username, nil
			})
		},
		func() error {
			return step("send a message, once", func() (string, error) { return s.send(ctx, account) })
		},
		func() error {
			return step("get a typed problem", func() (string, error) { return missingChat(ctx, account) })
		},
		func() error { return step("page through chats", func() (string, error) { return pages(ctx, account) }) },
		func() error { return s.streaming(ctx, account.ID) },
		func() error { return s.webhook(ctx, account.ID) },
	)
}

func (s *scenario) send(ctx context.Context, account *stagedoor.AccountClient) (string, error) {
	chats, err := account.Chats.List(ctx, stagedoor.ChatsListParams{Limit: 1})
	if err != nil {
		return "", err
	}
	if len(chats.Items) == 0 {
		return "", errors.New("no chats")
	}
	chat := chats.Items[0].ID
	params := stagedoor.MessagesSendParams{ChatID: chat, Text: s.mark + " thank you!"}
	first, err := account.Messages.Send(ctx, params, stagedoor.WithIdempotencyKey(s.mark+"-send"))
	if err != nil {
		return "", err
	}
	again, err := account.Messages.Send(ctx, params, stagedoor.WithIdempotencyKey(s.mark+"-send"))
	if err != nil {
		return "", err
	}
	if first.Text != params.Text || first.ID != again.ID {
		return "", fmt.Errorf("sent %+v, then %+v", first, again)
	}
	if _, err := account.Messages.Send(ctx, stagedoor.MessagesSendParams{ChatID: chat, Text: "never"}, stagedoor.WithDryRun()); err != nil {
		return "", err
	}
	for newest, err := range account.Messages.ListAll(ctx, stagedoor.MessagesListParams{ChatID: chat, Limit: 1}) {
		if err != nil {
			return "", err
		}
		if newest.ID != first.ID {
			return "", fmt.Errorf("the newest message is %q", newest.Text)
		}
		break
	}
	return first.ID, nil
}

func missingChat(ctx context.Context, account *stagedoor.AccountClient) (string, error) {
	_, err := account.Messages.Send(ctx, stagedoor.MessagesSendParams{ChatID: "999999999999", Text: "nobody"})
	var p *stagedoor.Problem
	if !errors.As(err, &p) {
		return "", fmt.Errorf("message to an unknown chat: %w", err)
	}
	if !stagedoor.IsProblem(err, stagedoor.CodeUpstreamNotFound) || p.Retryable || p.Status != http.StatusNotFound || !strings.HasPrefix(p.RequestID, "req_") {
		return "", fmt.Errorf("unexpected problem: %w", err)
	}
	return string(p.Code), nil
}

func pages(ctx context.Context, account *stagedoor.AccountClient) (string, error) {
	params := stagedoor.ChatsListParams{Limit: 3}
	var byPage, iterated []string
	count := 0
	for {
		page, err := account.Chats.List(ctx, params)
		if err != nil {
			return "", err
		}
		count++
		for _, chat := range page.Items {
			byPage = append(byPage, chat.ID)
		}
		if page.NextCursor == nil || count == 4 {
			break
		}
		params.Cursor = *page.NextCursor
	}
	for chat, err := range account.Chats.ListAll(ctx, stagedoor.ChatsListParams{Limit: 3}) {
		if err != nil {
			return "", err
		}
		iterated = append(iterated, chat.ID)
		if len(iterated) == len(byPage) {
			break
		}
	}
	if count < 2 || !slices.Equal(byPage, iterated) || distinct(byPage) != len(byPage) {
		return "", fmt.Errorf("%d pages: %v, then %v", count, byPage, iterated)
	}
	return fmt.Sprintf("%d chats on %d pages", len(byPage), count), nil
}

// fire makes the sandbox send messages to the account.
func (s *scenario) fire(ctx context.Context, account string, numbers ...int) ([]string, error) {
	var texts []string
	for _, n := range numbers {
		text := fmt.Sprintf("%s %d", s.mark, n)
		_, err := s.client.Sandbox.FireEvent(ctx, account, stagedoor.SandboxFireEventParams{Event: "message", Data: &stagedoor.SandboxEventData{Text: text}})
		if err != nil {
			return nil, err
		}
		texts = append(texts, text)
	}
	return texts, nil
}

// webhook verifies a delivery, and checks that a changed body is rejected.
func (s *scenario) webhook(ctx context.Context, account string) error {
	hook, got, err := receiver()
	if err != nil {
		return err
	}
	defer hook.Close()
	var secret, text string
	var d delivery
	return steps(
		func() error {
			return step("set a webhook", func() (string, error) {
				set, err := s.client.Webhooks.Set(ctx, account, stagedoor.WebhooksSetParams{URL: "http://" + hook.Addr().String() + "/hook", Events: []string{"message"}})
				if err != nil {
					return "", err
				}
				secret = set.SigningSecret
				return "", nil
			})
		},
		func() error {
			return step("receive a delivery", func() (string, error) {
				texts, err := s.fire(ctx, account, 9)
				if err != nil {
					return "", err
				}
				text = texts[0]
				select {
				case d = <-got:
					return "", nil
				case <-time.After(timeout):
					return "", errors.New("no delivery arrived")
				}
			})
		},
		func() error {
			return step("verify it", func() (string, error) {
				event, err := stagedoor.VerifyWebhook(secret, d.header, d.body)
				if err != nil {
					return "", err
				}
				data, ok := event.Data.(*stagedoor.MessageData)
				if !ok || data.Message.Text != text {
					return "", fmt.Errorf("unexpected event: %s", event.Raw)
				}
				found, err := s.client.Events.Get(ctx, event.ID)
				if err != nil {
					return "", err
				}
				return found.ID, nil
			})
		},
		func() error {
			return step("reject a changed body", func() (string, error) {
				_, err := stagedoor.VerifyWebhook(secret, d.header, bytes.Replace(d.body, []byte(text), []byte("another text"), 1))
				var refused *stagedoor.WebhookVerificationError
				if !errors.As(err, &refused) || refused.Reason != stagedoor.ReasonNoMatch {
					return "", fmt.Errorf("changed body: %w", err)
				}
				return string(refused.Reason), nil
			})
		},
		func() error {
			return step("delete the webhook", func() (string, error) {
				_, err := s.client.Webhooks.Delete(ctx, account)
				return "", err
			})
		},
	)
}

type delivery struct {
	header http.Header
	body   []byte
}

// receiver starts a local server that receives webhooks.
func receiver() (net.Listener, <-chan delivery, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	got := make(chan delivery, 16)
	go func() {
		_ = http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return
			}
			got <- delivery{r.Header.Clone(), body}
			w.WriteHeader(http.StatusNoContent)
		}))
	}()
	return l, got, nil
}

// distinct returns the number of different strings.
func distinct(list []string) int {
	set := map[string]bool{}
	for _, one := range list {
		set[one] = true
	}
	return len(set)
}
