package audit_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/vault/seal/sealtest"
)

// lateKeys derives keys after some failures.
type lateKeys struct {
	*sealtest.Memory
	failures int
}

func (k *lateKeys) Derive(ctx context.Context, purpose string) ([]byte, error) {
	if k.failures--; k.failures >= 0 {
		return nil, errors.New("the keyring is down")
	}
	return k.Memory.Derive(ctx, purpose)
}

func TestLoadKeyRetriesAndLogsOneLine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var lines bytes.Buffer
		log := audit.New(nil, &lateKeys{sealtest.NewMemory(), 3}, time.Now)
		must.OK(t, log.LoadKey(t.Context(), slog.New(slog.NewJSONHandler(&lines, nil))))
		if strings.Count(lines.String(), "\n") != 1 || !strings.Contains(lines.String(), "the keyring is down") {
			t.Errorf("%s", lines.String())
		}
	})
}
