package org

import (
	"maps"
	"slices"
)

// Plan names what an org pays for.
type Plan string

// The plans.
const (
	Sandbox Plan = "sandbox"
	Starter Plan = "starter"
	Growth  Plan = "growth"
	Scale   Plan = "scale"
)

// Unlimited is the value of a limit that is not enforced.
const Unlimited = -1

// Limits are what an org may do. Counts are per the time in their name; sizes are in bytes.
type Limits struct {
	CallsPerMinute         int
	CallsPerMonth          int
	AccountReadPerMinute   int
	AccountWritePerMinute  int
	ConnectAttemptsPerHour int
	MaxAccounts            int
	MaxKeys                int
	MaxStreamsPerAccount   int
	EventRetentionDays     int
	DeliveryRetentionDays  int
	MaxRequestBytes        int
	MaxResponseBytes       int
	UploadMaxBytes         int
}

// common holds what does not differ by plan.
var common = Limits{
	MaxKeys: 100, DeliveryRetentionDays: 30,
	MaxRequestBytes: 1 << 20, MaxResponseBytes: 64 << 20, UploadMaxBytes: 5 << 30,
}

// plans is the price list, so to speak: a row a plan, in the columns of the contract's table:
// calls per minute, per month, reads, writes, connects per hour, accounts, streams, days events are kept.
var plans = map[Plan]Limits{
	Sandbox: plan([8]int{600, 1_000_000, 60, 20, 60, 25, 5, 3}),
	Starter: plan([8]int{600, 1_000_000, 60, 20, 30, 50, 5, 7}),
	Growth:  plan([8]int{3_000, 20_000_000, 120, 40, 120, 1_000, 10, 14}),
	Scale:   plan([8]int{12_000, 200_000_000, 240, 60, 600, 20_000, 20, 30}),
}

func plan(columns [8]int) Limits {
	l := common
	for i, field := range []*int{
		&l.CallsPerMinute, &l.CallsPerMonth, &l.AccountReadPerMinute, &l.AccountWritePerMinute,
		&l.ConnectAttemptsPerHour, &l.MaxAccounts, &l.MaxStreamsPerAccount, &l.EventRetentionDays,
	} {
		*field = columns[i]
	}
	return l
}

// Limits are what a plan includes.
func (p Plan) Limits() Limits { return plans[p] }

// Plans lists the names of the plans.
func Plans() []Plan { return slices.Sorted(maps.Keys(plans)) }

// named links a limit's name on the wire and in the database to its field.
var named = []struct {
	name  string
	field func(*Limits) *int
}{
	{"callsPerMinute", func(l *Limits) *int { return &l.CallsPerMinute }},
	{"callsPerMonth", func(l *Limits) *int { return &l.CallsPerMonth }},
	{"accountReadPerMinute", func(l *Limits) *int { return &l.AccountReadPerMinute }},
	{"accountWritePerMinute", func(l *Limits) *int { return &l.AccountWritePerMinute }},
	{"connectAttemptsPerHour", func(l *Limits) *int { return &l.ConnectAttemptsPerHour }},
	{"maxAccounts", func(l *Limits) *int { return &l.MaxAccounts }},
	{"maxKeys", func(l *Limits) *int { return &l.MaxKeys }},
	{"maxStreamsPerAccount", func(l *Limits) *int { return &l.MaxStreamsPerAccount }},
	{"eventRetentionDays", func(l *Limits) *int { return &l.EventRetentionDays }},
	{"deliveryRetentionDays", func(l *Limits) *int { return &l.DeliveryRetentionDays }},
	{"maxRequestBytes", func(l *Limits) *int { return &l.MaxRequestBytes }},
	{"maxResponseBytes", func(l *Limits) *int { return &l.MaxResponseBytes }},
	{"uploadMaxBytes", func(l *Limits) *int { return &l.UploadMaxBytes }},
}

// LimitNames lists the names that an override may have.
func LimitNames() []string {
	names := make([]string, len(named))
	for i, n := range named {
		names[i] = n.name
	}
	return names
}

// Override is what one org has other than its plan says, by the limit's name.
type Override map[string]int

// resolve applies an override to a plan's limits. Names it does not know are left alone.
func resolve(p Plan, o Override) Limits {
	l := plans[p]
	for _, n := range named {
		if value, ok := o[n.name]; ok {
			*n.field(&l) = value
		}
	}
	return l
}
