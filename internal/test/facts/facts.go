// Package facts writes figures that the code decides into documents, between markers such as
//
//	<!-- fact: account.Shards -->64<!-- /fact -->
//
// `make generate` fills them, and the test of this package fails if a document has an old figure.
package facts

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/accounts/connect/attempt"
	"github.com/stagedoor/stagedoor/internal/base/contract"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook/lane/phase"
	"github.com/stagedoor/stagedoor/internal/events/event"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
)

// Values returns the text of each fact by its name.
func Values() (map[string]string, error) {
	c, err := catalog.Sandbox()
	if err != nil {
		return nil, err
	}
	reads := 0
	for _, m := range c.Methods() {
		if m.Access == catalog.Read {
			reads++
		}
	}
	plans, _ := org.NewPlans().All()
	values := map[string]string{
		"org.Plans": planTable(plans),
	}
	for name, n := range map[string]int{
		"account.Edges":        accountEdges(),
		"account.Shards":       account.Shards,
		"account.States":       len(account.States()),
		"attempt.Edges":        len(attempt.Edges()),
		"catalog.Methods":      len(c.Methods()),
		"catalog.Reads":        reads,
		"catalog.Resources":    len(c.Resources()),
		"catalog.Writes":       len(c.Methods()) - reads,
		"event.Buckets":        event.Buckets,
		"event.Kinds":          len(c.Events()) + len(contract.Events),
		"org.MaxKeys":          org.NewPlans().Limits(org.Sandbox).MaxKeys,
		"org.MaxRetentionDays": org.MaxRetentionDays,
		"phase.All":            len(phase.All()),
	} {
		values[name] = strconv.Itoa(n)
	}
	for _, p := range plans {
		values["org.RetentionDays."+string(p.Name)] = strconv.Itoa(p.Limits.EventRetentionDays)
	}
	return values, nil
}

// accountEdges counts the pairs of states that an account can move between. Triggers do not matter.
func accountEdges() int {
	pairs := map[string]bool{}
	for line := range strings.Lines(account.Diagram()) {
		if pair, _, ok := strings.Cut(line, ": "); ok {
			pairs[pair] = true
		}
	}
	return len(pairs)
}

func planTable(plans []org.PlanLimits) string {
	var b strings.Builder
	b.WriteString("\n| plan | calls/min | calls/month | reads/min of an account | writes/min | connects/h | accounts | " +
		"streams per key and account | events kept |\n|---|---|---|---|---|---|---|---|---|\n")
	for _, p := range plans {
		l := p.Limits
		fmt.Fprintf(&b, "| `%s` |", p.Name)
		for _, n := range []int{
			l.CallsPerMinute, l.CallsPerMonth, l.AccountReadPerMinute, l.AccountWritePerMinute, l.ConnectAttemptsPerHour,
			l.MaxAccounts, l.MaxStreamsPerAccount,
		} {
			fmt.Fprintf(&b, " %s |", groupDigits(n))
		}
		fmt.Fprintf(&b, " %d days |\n", l.EventRetentionDays)
	}
	return b.String()
}

// groupDigits writes a number with a comma between thousands.
func groupDigits(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// marked matches a fact in a document.
var marked = regexp.MustCompile(`(?s)<!-- fact: (\S+) -->(.*?)<!-- /fact -->`)

// Fill returns a document with the current values between its markers, and the names of its facts.
func Fill(document string, values map[string]string) (filled string, names []string, err error) {
	filled = marked.ReplaceAllStringFunc(document, func(text string) string {
		name := marked.FindStringSubmatch(text)[1]
		value, ok := values[name]
		if !ok {
			err = fmt.Errorf("unknown fact %s", name)
		}
		names = append(names, name)
		return "<!-- fact: " + name + " -->" + value + "<!-- /fact -->"
	})
	if n := strings.Count(document, "<!-- fact:"); err == nil && n != len(names) {
		err = fmt.Errorf("%d facts have no end", n-len(names))
	}
	return filled, names, err
}
