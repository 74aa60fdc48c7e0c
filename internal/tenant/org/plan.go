package org

import "time"

// Plan is the name of a price plan. It decides an org's default limits (plans.go).
type Plan string

// Sandbox is the plan of an org that a person creates by signing in. Every list of plans has it.
const Sandbox Plan = "sandbox"

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

// apply returns the limits with the override applied. It ignores unknown names.
func (o Override) apply(l Limits) Limits {
	for _, n := range limitFields {
		if value, ok := o[n.name]; ok {
			*n.field(&l) = value
		}
	}
	return l
}
