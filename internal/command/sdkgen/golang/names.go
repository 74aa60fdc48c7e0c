package golang

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/stagedoor/stagedoor/internal/command/sdkgen/model"
)

// initialisms are words with a fixed spelling in Go names.
var initialisms = map[string]string{
	"id": "ID", "ids": "IDs", "url": "URL", "urls": "URLs", "ip": "IP", "ips": "IPs", "qr": "QR", "api": "API", "sdk": "SDK", "otp": "OTP",
	"sms": "SMS", "csv": "CSV", "json": "JSON", "sha256": "SHA256", "etag": "ETag", "ts": "TS",
}

// goName returns an exported Go name: ChatID for chatId, ReferenceID for
// reference_id, AccountConnected for account.connected.
func goName(name string) string {
	var b strings.Builder
	for _, word := range words(name) {
		if short, ok := initialisms[strings.ToLower(word)]; ok {
			b.WriteString(short)
		} else {
			b.WriteString(model.Title(word))
		}
	}
	return b.String()
}

// goParam returns the Go name of a parameter: accountID for accountId.
func goParam(name string) string {
	exported := goName(name)
	first := words(name)[0]
	return strings.ToLower(first) + exported[len(first):]
}

// words splits a name at capital letters and at punctuation. A run of capitals is one word: getOpenAPI
// is get, Open, API.
func words(name string) []string {
	var list []string
	var word []rune
	end := func() {
		if len(word) > 0 {
			list, word = append(list, string(word)), nil
		}
	}
	var before rune
	for _, r := range name {
		switch {
		case !unicode.IsLetter(r) && !unicode.IsDigit(r):
			end()
		case unicode.IsUpper(r) && !unicode.IsUpper(before):
			end()
			word = append(word, r)
		default:
			word = append(word, r)
		}
		before = r
	}
	end()
	return list
}

// fileName returns the name of the generated file for a resource or group.
func fileName(name string) string {
	var parts []string
	for _, word := range words(name) {
		parts = append(parts, strings.ToLower(word))
	}
	return strings.Join(parts, "_") + "_gen.go"
}

// lower makes the first letter lower case, so that the text can follow a colon. An abbreviation stays in capitals.
func lower(sentence string) string {
	first, size := utf8.DecodeRuneInString(sentence)
	second, _ := utf8.DecodeRuneInString(sentence[size:])
	if unicode.IsUpper(second) {
		return sentence
	}
	return string(unicode.ToLower(first)) + sentence[size:]
}
