package fleet

import (
	"context"
	"crypto/rand"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stagedoor/stagedoor/internal/engine/pubsub"
)

// Nodes ask each other over NATS whether they reach the database, whose identity is in the question. Heartbeats cannot
// answer that, because they are in the database.
const (
	askKind    = "askdb" // inv.askdb.<question>
	answerKind = "hasdb" // inv.hasdb.<question>

	askTimeout  = 500 * time.Millisecond
	pingTimeout = time.Second
)

// OthersReachDatabase asks the other nodes whether they reach the database, and reports whether one of them does. Without
// NATS it reports true: this node is cut off from two systems then, so its own network is more likely to be the cause.
func (f *Fleet) OthersReachDatabase(ctx context.Context) bool {
	question := rand.Text()
	yes := make(chan struct{}, 1)
	f.questions.Store(question, yes)
	defer f.questions.Delete(question)
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	database := f.database.Load()
	if database == nil || !f.deps.Bus.Connected() || f.publish(askKind, question, *database) != nil {
		return true
	}
	select {
	case <-yes:
		return true
	case <-ctx.Done():
		return false
	}
}

func (f *Fleet) publish(kind, question, payload string) error {
	subject, err := pubsub.Subject("inv", kind, question)
	if err != nil {
		return err
	}
	return f.deps.Bus.Publish(subject, []byte(payload))
}

// AnswerPeers answers the questions of other nodes until ctx ends.
func (f *Fleet) AnswerPeers(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		return f.deps.Bus.Subscribe(ctx, "inv."+askKind+".*", func(question string, asked []byte) {
			database := f.database.Load()
			if _, own := f.questions.Load(question); !own && database != nil && *database == string(asked) {
				go f.answer(ctx, question)
			}
		})
	})
	group.Go(func() error {
		return f.deps.Bus.Subscribe(ctx, "inv."+answerKind+".*", func(question string, _ []byte) {
			if yes, ok := f.questions.Load(question); ok {
				select {
				case yes.(chan struct{}) <- struct{}{}:
				default: // another node was faster
				}
			}
		})
	})
	return group.Wait()
}

// answer answers a question if the database responds. Concurrent questions share a ping.
func (f *Fleet) answer(ctx context.Context, question string) {
	_, err, _ := f.pings.Do("", func() (any, error) {
		ctx, cancel := context.WithTimeout(ctx, pingTimeout)
		defer cancel()
		return nil, f.deps.DB.Ping(ctx)
	})
	if err == nil {
		// If the answer is lost, the other node asks again with its next check.
		_ = f.publish(answerKind, question, "")
	}
}
