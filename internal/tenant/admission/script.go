package admission

import (
	"context"
	_ "embed"
	"encoding/binary"
	"errors"
	"math"
	"strconv"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/engine/redis"
)

// The scripts run on the shared server; each is one step to everybody else. The layout of the two records is described
// in admit.lua, and must be the same in all of them.
var (
	//go:embed admit.lua
	admitText string
	//go:embed prime.lua
	primeText string
	//go:embed bump.lua
	bumpText string
	//go:embed credit.lua
	creditText string
	//go:embed lift.lua
	liftText string
	//go:embed cool.lua
	coolText string
)

type scripts struct{ admit, prime, bump, credit, lift, cool *redis.Script }

func loadScripts() scripts {
	return scripts{
		admit: redis.NewScript(admitText), prime: redis.NewScript(primeText), bump: redis.NewScript(bumpText),
		credit: redis.NewScript(creditText), lift: redis.NewScript(liftText), cool: redis.NewScript(coolText),
	}
}

// Keys carry the org as hash tag, so that all of an org's counters live on one shard and a script can touch them together.
func orgKey(org id.Org) string { return "o:{" + string(org) + "}" }

func accountKey(org id.Org, account id.Account) string {
	return "a:{" + string(org) + "}:" + string(account)
}

func safetyKey(org id.Org) string { return "s:{" + string(org) + "}" }

// verdict is what admit.lua answers.
type verdict uint8

const (
	admitted     verdict = 0
	overMinute   verdict = 1
	overMonth    verdict = 2
	overRead     verdict = 3
	overWrite    verdict = 4
	overSafety   verdict = 5
	staleEpoch   verdict = 7
	otherCounter verdict = 8
	coolingDown  verdict = 9
)

// answer is admit.lua's answer, unpacked.
type answer struct {
	verdict        verdict
	wait           time.Duration
	now            time.Time
	month          int
	incarnation    int64
	sessionVersion uint32
	orgLevel       float64
	used           int64
	// ownLevel is that of the account's bucket, or of the org's for safety.
	ownLevel float64
	// lastWrite is when the account was last written to before this call; zero if it is not known to have been.
	lastWrite time.Time
}

const answerSize = 1 + 8 + 8 + 4 + 4 + 4 + 8 + 8 + 8 + 8

var errAnswer = errors.New("admission script answered something else than expected")

// decode unpacks '<BddI4I4I4dI8dd'.
func decode(text string) (answer, error) {
	if len(text) != answerSize {
		return answer{}, errAnswer
	}
	b := []byte(text)
	float := func(at int) float64 { return math.Float64frombits(binary.LittleEndian.Uint64(b[at:])) }
	a := answer{
		verdict:        verdict(b[0]),
		wait:           time.Duration(math.Ceil(float(1))) * time.Millisecond,
		now:            time.UnixMilli(int64(float(9))).UTC(),
		month:          int(binary.LittleEndian.Uint32(b[17:])),
		incarnation:    int64(binary.LittleEndian.Uint32(b[21:])),
		sessionVersion: binary.LittleEndian.Uint32(b[25:]),
		orgLevel:       float(29),
		used:           int64(binary.LittleEndian.Uint64(b[37:])),
		ownLevel:       float(45),
	}
	if ms := float(53); ms > 0 {
		a.lastWrite = time.UnixMilli(int64(ms)).UTC()
	}
	return a, nil
}

// arguments are those of admit.lua, in its order.
func arguments(c Call, month int, incarnation int64, now string) []string {
	kind, own := "0", c.accountLimit()
	switch c.Quota {
	case Read:
		kind = "1"
	case Write:
		kind = "2"
	case Safety:
		kind, own = "3", SafetyPerMinute
	case Free, Plain:
	}
	return []string{
		kind, itoa(c.Limits.CallsPerMinute), itoa(c.Limits.CallsPerMonth), itoa(month),
		itoa(own), flag(c.looks()), strconv.FormatInt(c.Epoch, 10), strconv.FormatInt(incarnation, 10), now, flag(c.fresh()),
	}
}

func flag(b bool) string {
	if b {
		return "1"
	}
	return "0"
}

func itoa(n int) string { return strconv.Itoa(n) }

// tell runs a script on an org's counters with numbers as arguments.
func (l *Limiter) tell(ctx context.Context, script *redis.Script, org id.Org, numbers ...int64) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, tellTimeout)
	defer cancel()
	args := make([]string, len(numbers))
	for i, n := range numbers {
		args[i] = strconv.FormatInt(n, 10)
	}
	return l.Redis.Run(ctx, script, []string{orgKey(org)}, args)
}
