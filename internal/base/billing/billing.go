// Package billing defines how usage looks to billing systems: in answers of the admin API, in the exports of the CLI and in
// the usage webhook.
package billing

// UsageDay is the usage of an organisation on a day.
type UsageDay struct {
	OrgID            string `json:"orgId"`
	Plan             string `json:"plan" doc:"The current plan."`
	Environment      string `json:"environment" enum:"sandbox,live"`
	Day              string `json:"day" doc:"The day in UTC, such as 2026-11-01."`
	Calls            int64  `json:"calls" doc:"All calls, with those that failed and those that a limit refused."`
	FailedCalls      int64  `json:"failedCalls"`
	RateLimitedCalls int64  `json:"rateLimitedCalls"`
	ActiveAccounts   int64  `json:"activeAccounts" doc:"Accounts that were called."`
	EventsReceived   int64  `json:"eventsReceived"`
	EventsStreamed   int64  `json:"eventsStreamed"`
	EventsDelivered  int64  `json:"eventsDelivered" doc:"Events that a webhook accepted."`
	FailedDeliveries int64  `json:"failedDeliveries" doc:"Failed attempts, of which an event can have several."`
	BytesSent        int64  `json:"bytesSent" doc:"To platforms."`
	BytesReceived    int64  `json:"bytesReceived" doc:"From platforms."`
}

// CloudEvent is an event in the JSON format of CloudEvents 1.0. OpenMeter ignores one whose source and id it has.
type CloudEvent struct {
	SpecVersion string   `json:"specversion"`
	ID          string   `json:"id"`
	Source      string   `json:"source"`
	Type        string   `json:"type"`
	Subject     string   `json:"subject"`
	Time        string   `json:"time"`
	ContentType string   `json:"datacontenttype"`
	Data        UsageDay `json:"data"`
}

// Event returns the day as an event. Its id is the same whenever the day is exported.
func (d UsageDay) Event() CloudEvent {
	return CloudEvent{
		SpecVersion: "1.0", ID: d.OrgID + "/" + d.Day, Source: "stagedoor", Type: "stagedoor.usage.day", Subject: d.OrgID, Time: d.Day + "T00:00:00Z",
		ContentType: "application/json", Data: d,
	}
}
