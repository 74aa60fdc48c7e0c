package switches

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/stagedoor/stagedoor/internal/operate/switches/internal/db"
)

// The kinds of rows.
const (
	kindSwitch = "switch"
	kindDrain  = "drain"
	kindBanner = "banner"
)

func readState(ctx context.Context, q db.DBTX) (State, error) {
	rows, err := db.New(q).All(ctx)
	if err != nil {
		return State{}, err
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
			s.Banner = &Banner{Decision: d}
			if err := json.Unmarshal(r.Value, s.Banner); err != nil {
				return State{}, fmt.Errorf("decode banner: %w", err)
			}
		}
	}
	return s, nil
}
