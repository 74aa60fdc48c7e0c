package apikey

// Token and NewToken open the form of keys to tests.
var (
	ParseToken = func(text string) error { _, err := parseToken(text); return err }
	NewToken   = newToken
)
