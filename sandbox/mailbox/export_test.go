package mailbox

// What tests of this package use in addition.
const (
	MostMails      = mostMails
	MostBytes      = mostBytes
	MostMailBytes  = mostMailBytes
	MostRecipients = mostRecipients
)

var (
	Parse = parse
	Add   = (*Mailbox).add
)
