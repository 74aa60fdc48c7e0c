// Package mailview shows in responses what became of an email. It does not send emails (package tenant/mail).
package mailview

import "github.com/stagedoor/stagedoor/internal/tenant/mail"

// Mail is what became of an email.
type Mail struct {
	_       struct{} `schema:"Mail" doc:"What became of an email that the service was to send."`
	To      string   `json:"to" doc:"The recipient's address, with most characters hidden."`
	Status  string   `json:"status" extensible:"queued,not_configured,limited" doc:"queued: the service sends the email within seconds. not_configured: the service has no mail server; send the text yourself. limited: the email is not sent, because the recipient got one about the same within the hour, or because the organisation has sent 200 emails within the hour."`
	Subject string   `json:"subject" doc:"The subject of the email."`
	Text    string   `json:"text" doc:"The text of the email, with its link." sensitive:"true"`
}

// View returns a report as callers see it.
func View(r mail.Report) *Mail {
	return &Mail{To: r.To, Status: string(r.Status), Subject: r.Subject, Text: r.Text}
}
