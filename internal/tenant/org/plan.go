package org

import (
	"maps"
	"slices"
	"time"
)

// Plan is the name of a price plan. It decides an org's default limits.
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

// Limits bound what an org may do. Counts apply to the period in the field's name; sizes are in bytes. A value may be
// Unlimited.
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

// MaxRetentionDays is how many days events, deliveries and the request log are stored. An org may read as many days or
// fewer.
const MaxRetentionDays = 30

// ReadableSince returns the earliest time that an org may read, by a limit in days. Unlimited means MaxRetentionDays.
func ReadableSince(now time.Time, days int) time.Time {
	if days < 0 || days > MaxRetentionDays {
		days = MaxRetentionDays
	}
	return now.AddDate(0, 0, -days)
}

// commonLimits holds the limits that all plans share.
var commonLimits = Limits{
	MaxKeys: 100, DeliveryRetentionDays: MaxRetentionDays,
	MaxRequestBytes: 1 << 20, MaxResponseBytes: 64 << 20, UploadMaxBytes: 5 << 30,
}

// plans has one row per plan, in the column order of the specification's table: calls per minute, calls per month, account
// reads per minute, account writes per minute, connect attempts per hour, accounts, streams per account, days of event
// retention.
var plans = map[Plan]Limits{
	Sandbox: planLimits([8]int{600, 1_000_000, 60, 20, 60, 25, 5, 3}),
	Starter: planLimits([8]int{600, 1_000_000, 60, 20, 30, 50, 5, 7}),
	Growth:  planLimits([8]int{3_000, 20_000_000, 120, 40, 120, 1_000, 10, 14}),
	Scale:   planLimits([8]int{12_000, 200_000_000, 240, 60, 600, 20_000, 20, 30}),
}

func planLimits(columns [8]int) Limits {
	l := commonLimits
	for i, field := range []*int{
		&l.CallsPerMinute, &l.CallsPerMonth, &l.AccountReadPerMinute, &l.AccountWritePerMinute,
		&l.ConnectAttemptsPerHour, &l.MaxAccounts, &l.MaxStreamsPerAccount, &l.EventRetentionDays,
	} {
		*field = columns[i]
	}
	return l
}

// Limits returns the plan's limits, all zero for an unknown plan.
func (p Plan) Limits() Limits { return plans[p] }

// Plans returns the names of the plans in alphabetical order.
func Plans() []Plan { return slices.Sorted(maps.Keys(plans)) }

// limitFields maps a limit's name in the API and in the database to its field.
var limitFields = []struct {
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

// LimitNames returns the names that an Override may use.
func LimitNames() []string {
	names := make([]string, len(limitFields))
	for i, n := range limitFields {
		names[i] = n.name
	}
	return names
}

// Override maps the names of limits to the values that replace the plan's values for one org.
type Override map[string]int

// resolve returns a plan's limits with the override applied. It ignores unknown names.
func resolve(p Plan, o Override) Limits {
	l := plans[p]
	for _, n := range limitFields {
		if value, ok := o[n.name]; ok {
			*n.field(&l) = value
		}
	}
	return l
}
