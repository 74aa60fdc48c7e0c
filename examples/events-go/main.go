// Command events-go receives the events of connected accounts and stores each of them once and in order, even if it is
// killed, restarted or stopped for hours.
//
//	STAGEDOOR_URL=… STAGEDOOR_API_KEY=… events-go -journal events.jsonl -listen 127.0.0.1:3000 [acct_…]
//
// Webhooks deliver events within milliseconds; the event log has those that were missed. Start reading at inbox.go.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	stagedoor "github.com/stagedoor/stagedoor/client/go"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:3000", "`address` to receive webhooks on")
	public := flag.String("public", "", "public `URL` of that address (default http:// and the address)")
	file := flag.String("journal", "events.jsonl", "`file` to store events in")
	flag.Parse()
	if *public == "" {
		*public = "http://" + *listen
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *listen, *public, *file, flag.Args()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, listen, public, file string, accounts []string) error {
	client, err := stagedoor.New(stagedoor.Options{})
	if err != nil {
		return err
	}
	journal, err := openJournal(file)
	if err != nil {
		return err
	}
	defer journal.Close()
	if len(accounts) == 0 {
		for account, err := range client.Accounts.ListAll(ctx, stagedoor.AccountsListParams{Limit: 100}) {
			if err != nil {
				return err
			}
			accounts = append(accounts, account.ID)
		}
	}

	inbox := newInbox(client, journal)
	receiver := &receiver{inbox: inbox, verifiers: map[string]stagedoor.Verifier{}}
	for _, id := range accounts {
		// Setting a webhook again keeps its secret and returns it, so the secret need not be stored here.
		hook, err := client.Webhooks.Set(ctx, id, stagedoor.WebhooksSetParams{URL: public + "/hooks/" + id})
		if err != nil {
			return fmt.Errorf("set the webhook of %s: %w", id, err)
		}
		receiver.verifiers[id] = stagedoor.Verifier{Secrets: []string{hook.SigningSecret}}
	}

	server := &http.Server{Addr: listen, Handler: receiver.routes(), ReadTimeout: 15 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- server.ListenAndServe() }()

	// Read what happened while the program was stopped. Webhooks arrive concurrently; the inbox puts both in order.
	for _, id := range accounts {
		if err := inbox.CatchUp(ctx, id); err != nil {
			return err
		}
	}
	log.Printf("receiving at %s; %d events in %s", public, journal.Len(), file)

	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	return server.Shutdown(end)
}

// receiver accepts deliveries and answers when they are on disk.
type receiver struct {
	inbox     *inbox
	verifiers map[string]stagedoor.Verifier
}

func (r *receiver) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /hooks/{account}", r.receive)
	return mux
}

func (r *receiver) receive(w http.ResponseWriter, req *http.Request) {
	verifier, known := r.verifiers[req.PathValue("account")]
	if !known {
		w.WriteHeader(http.StatusGone) // the service stops sending
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, 1<<20))
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	event, err := verifier.Verify(req.Header, body)
	if refused := (*stagedoor.WebhookVerificationError)(nil); errors.As(err, &refused) {
		log.Printf("refused a delivery: %s", refused.Reason)
		w.WriteHeader(http.StatusUnauthorized)
		return
	} else if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	// Acknowledge the event only after it is stored. If the program dies before, it is delivered again.
	if err := r.inbox.Take(req.Context(), event); err != nil {
		log.Printf("%s: %v", event.ID, err)
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
