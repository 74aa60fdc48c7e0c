package link_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stagedoor/stagedoor/internal/accounts/connect/link"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

type keys struct {
	key string
	err error
}

func (k keys) Derive(context.Context, string) ([]byte, error) { return []byte(k.key), k.err }

func TestManageTokenIdentifiesItsAccountAndCannotBeForged(t *testing.T) {
	t.Parallel()
	links := link.NewLinks(keys{key: "one key for all nodes, 32 bytes."})
	org, account := id.New[id.Org](), id.New[id.Account]()
	token, err := links.Make(t.Context(), org, account)
	must.OK(t, err)
	text := token.Reveal()
	gotOrg, gotAccount, err := links.Read(t.Context(), text)
	if err != nil || gotOrg != org || gotAccount != account {
		t.Fatalf("%s %s %v", gotOrg, gotAccount, err)
	}
	other, err := links.Make(t.Context(), org, id.New[id.Account]())
	must.OK(t, err)
	bad := []string{"", "mng_", text[:60], text + "A", strings.ToUpper(text), text[:56] + other.Reveal()[56:], "cst_" + text[4:]}
	for i := 4; i < len(text); i++ {
		changed := []byte(text)
		changed[i] = "ab"[(int(changed[i])+1)%2]
		if string(changed) != text {
			bad = append(bad, string(changed))
		}
	}
	for _, one := range bad {
		if _, _, err := links.Read(t.Context(), one); !errors.Is(err, problem.AccountNotFound.New("")) {
			t.Errorf("%s: %v", one, err)
		}
	}
	if _, _, err := link.NewLinks(keys{key: "another key"}).Read(t.Context(), text); !errors.Is(err, problem.AccountNotFound.New("")) {
		t.Errorf("another key: %v", err)
	}
	down := errors.New("keyring unavailable")
	if _, _, err := link.NewLinks(keys{err: down}).Read(t.Context(), text); !errors.Is(err, down) {
		t.Errorf("no key: %v", err)
	}
}
