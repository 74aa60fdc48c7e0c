package mailbox

import (
	"bytes"
	"encoding/base64"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/mail"
	"strings"
)

// mostNested limits how deep parts may be nested.
const mostNested = 8

// parse reads a mail: its subject and sender, and the first text and the first HTML in it. A mail that is not valid is
// kept as text, because its reader wants to know what was sent.
func parse(raw []byte) Mail {
	message, err := mail.ReadMessage(bytes.NewReader(raw))
	if err != nil {
		return Mail{Text: strings.ToValidUTF8(string(raw), "\uFFFD")}
	}
	m := Mail{Subject: word(message.Header.Get("Subject")), From: word(message.Header.Get("From"))}
	m.add(message.Header, message.Body, 0)
	return m
}

// word decodes the encoded words (RFC 2047) of a header.
func word(text string) string {
	if decoded, err := new(mime.WordDecoder).DecodeHeader(text); err == nil {
		text = decoded
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}

// header is the header of a mail or of a part of it.
type header interface{ Get(name string) string }

// add reads a mail or a part of it. It keeps what precedes a fault.
func (m *Mail) add(h header, body io.Reader, depth int) {
	kind, params, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil {
		kind, params = "text/plain", nil // the default, if there is no type (RFC 2045, 5.2)
	}
	if strings.HasPrefix(kind, "multipart/") {
		if depth == mostNested {
			return
		}
		parts := multipart.NewReader(body, params["boundary"])
		for part, err := parts.NextRawPart(); err == nil; part, err = parts.NextRawPart() {
			m.add(part.Header, part, depth+1)
		}
		return
	}
	into := map[string]*string{"text/plain": &m.Text, "text/html": &m.HTML}[kind]
	disposition, _, _ := mime.ParseMediaType(h.Get("Content-Disposition"))
	if into == nil || *into != "" || disposition == "attachment" {
		return
	}
	switch strings.ToLower(h.Get("Content-Transfer-Encoding")) {
	case "base64":
		body = base64.NewDecoder(base64.StdEncoding, body)
	case "quoted-printable":
		body = quotedprintable.NewReader(body)
	}
	text, _ := io.ReadAll(body) // what could be decoded
	*into = decodeCharset(params["charset"], text)
}

// decodeCharset decodes Latin-1 and treats all other texts as UTF-8.
func decodeCharset(name string, text []byte) string {
	if strings.EqualFold(name, "iso-8859-1") {
		runes := make([]rune, len(text))
		for i, b := range text {
			runes[i] = rune(b)
		}
		return string(runes)
	}
	return strings.ToValidUTF8(string(text), "\uFFFD")
}
