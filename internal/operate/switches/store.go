package switches

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/operate/switches/internal/db"
)

// The kinds of rows.
const (
	kindSwitch = "switch"
	kindDrain  = "drain"
	kindBanner = "banner"
)

// row is a decision to write or delete.
type row struct {
	kind, name, reason string
	value              json.RawMessage
	Decision
}

// bannerValue is the stored form of a banner.
type bannerValue struct {
	Text  string     `json:"text"`
	Level string     `json:"level"`
	URL   string     `json:"url,omitempty"`
	Until *time.Time `json:"until,omitempty"`
}

func encodeBanner(b Banner) (json.RawMessage, error) {
	text, err := json.Marshal(bannerValue{b.Text, b.Level, b.URL, b.Until})
	if err != nil {
		return nil, fmt.Errorf("encode banner: %w", err)
	}
	return text, nil
}

// lockChanges excludes all other changes of decisions until the transaction ends.
func lockChanges(ctx context.Context, tx postgres.Tx) error {
	if err := db.New(tx).Serialize(ctx); err != nil {
		return fmt.Errorf("lock operators' decisions: %w", err)
	}
	return nil
}

func readState(ctx context.Context, q db.DBTX) (State, error) {
	rows, err := db.New(q).All(ctx)
	if err != nil {
		return State{}, fmt.Errorf("read operators' decisions: %w", err)
	}
	s := State{Off: map[Switch]Decision{}, Drained: map[string]Decision{}}
	for _, r := range rows {
		d := Decision{r.Reason, r.ChangedBy, r.ChangedAt.UTC()}
		switch r.Kind {
		case kindSwitch:
			s.Off[Switch(r.Name)] = d
		case kindDrain:
			s.Drained[r.Name] = d
		case kindBanner:
			var v bannerValue
			if err := json.Unmarshal(r.Value, &v); err != nil {
				return State{}, fmt.Errorf("decode banner: %w", err)
			}
			s.Banner = &Banner{v.Text, v.Level, v.URL, v.Until, d}
		}
	}
	return s, nil
}

func putRow(ctx context.Context, tx postgres.Tx, r row) error {
	if r.value == nil {
		r.value = json.RawMessage("{}")
	}
	err := db.New(tx).Put(ctx, db.PutParams{
		Kind: r.kind, Name: r.name, Value: r.value, Reason: r.Reason, ChangedBy: r.By, ChangedAt: r.At,
	})
	if err != nil {
		return fmt.Errorf("write decision on %s %s: %w", r.kind, r.name, err)
	}
	return nil
}

func removeRow(ctx context.Context, tx postgres.Tx, r row) error {
	if err := db.New(tx).Remove(ctx, db.RemoveParams{Kind: r.kind, Name: r.name}); err != nil {
		return fmt.Errorf("delete decision on %s %s: %w", r.kind, r.name, err)
	}
	return nil
}
