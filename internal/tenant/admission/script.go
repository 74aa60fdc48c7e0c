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

// The scripts run atomically in Redis. admit.lua describes the layout of the records, which is the same in all of them.
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

// orgKey returns the key of an org's record. All keys have the org as hash tag, so that the records of one org are on
// one Redis shard and a script can use several of them.
func orgKey(org id.Org) string { return "o:{" + string(org) + "}" }

func accountKey(org id.Org, account id.Account) string {
	return "a:{" + string(org) + "}:" + string(account)
}

func safetyKey(org id.Org) string { return "s:{" + string(org) + "}" }

func shareKey(c Call) string {
	return "j:{" + string(c.Org) + "}:" + string(c.Account) + ":" + itoa(int(c.Of))
}

// outcome is the first field of admit.lua's answer. The values are part of the script.
type outcome uint8

const (
	admitted     outcome = 0
	overMinute   outcome = 1
	overMonth    outcome = 2
	overRead     outcome = 3
	overWrite    outcome = 4
	overOwn      outcome = 5
	staleEpoch   outcome = 7
	otherCounter outcome = 8
	coolingDown  outcome = 9
)

// answer is the decoded answer of admit.lua.
type answer struct {
	outcome        outcome
	wait           time.Duration
	now            time.Time
	month          int
	incarnation    int64
	sessionVersion uint32
	orgLevel       float64
	used           int64
	// ownLevel is the level of the account's bucket, or of that of Safety or Jobs.
	ownLevel float64
	// lastWrite is when the account was last written to before this call; zero if no write is known.
	lastWrite time.Time
}

const answerSize = 1 + 8 + 8 + 4 + 4 + 4 + 8 + 8 + 8 + 8

var errAnswer = errors.New("unexpected answer of an admission script")

// decodeAnswer decodes what admit.lua packs as '<BddI4I4I4dI8dd'.
func decodeAnswer(text string) (answer, error) {
	if len(text) != answerSize {
		return answer{}, errAnswer
	}
	b := []byte(text)
	float := func(at int) float64 { return math.Float64frombits(binary.LittleEndian.Uint64(b[at:])) }
	a := answer{
		outcome:        outcome(b[0]),
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

// admitArgs returns the arguments of admit.lua in its order.
func admitArgs(c Call, month int, incarnation int64, now string) []string {
	kind, own := "0", c.accountLimit()
	switch c.Quota {
	case Read:
		kind = "1"
	case Write:
		kind = "2"
	case Safety:
		kind, own = "3", SafetyPerMinute
	case Jobs:
		kind, own = "3", c.Most
	case Free, Plain:
	}
	return []string{
		kind, itoa(c.Limits.CallsPerMinute), itoa(c.Limits.CallsPerMonth), itoa(month),
		itoa(own), flag(c.usesNothing()), strconv.FormatInt(c.Epoch, 10), strconv.FormatInt(incarnation, 10), now, flag(c.isFresh()),
	}
}

func flag(b bool) string {
	if b {
		return "1"
	}
	return "0"
}

func itoa(n int) string { return strconv.Itoa(n) }

// runOrgScript runs a script on an org's record, with numbers as arguments, for up to announceTimeout.
func (l *Limiter) runOrgScript(ctx context.Context, script *redis.Script, org id.Org, numbers ...int64) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, announceTimeout)
	defer cancel()
	args := make([]string, len(numbers))
	for i, n := range numbers {
		args[i] = strconv.FormatInt(n, 10)
	}
	return l.deps.Redis.Run(ctx, script, []string{orgKey(org)}, args)
}
