package curlimport

import (
	"slices"
	"strings"
)

// option is an option of curl that is accepted. apply changes the request; value is empty unless takesValue.
type option struct {
	takesValue bool
	apply      func(r *request, value string) error
}

// optionOf returns an accepted option by its name. All others are refused.
func optionOf(name string) (option, bool) {
	switch name {
	case "-H", "--header":
		return option{true, headerOption}, true
	case "-b", "--cookie":
		return option{true, cookieOption}, true
	case "-A", "--user-agent":
		return option{true, func(r *request, value string) error { r.agent = value; return nil }}, true
	case "--url":
		return option{true, func(r *request, value string) error { r.urls = append(r.urls, value); return nil }}, true
	case "-X", "--request", "--data-raw":
		return option{true, ignore}, true
	case "-d", "--data", "--data-ascii", "--data-binary":
		return option{true, func(_ *request, value string) error { return noFile(name, strings.HasPrefix(value, "@")) }}, true
	case "--data-urlencode":
		return option{true, func(_ *request, value string) error { return noFile(name, readsFile(value)) }}, true
	case "--compressed", "-k", "-L", "-s":
		return option{false, ignore}, true
	}
	return option{}, false
}

func ignore(*request, string) error { return nil }

// readsFile is curl's rule for --data-urlencode: an @ before any = means that the value is a file name.
func readsFile(value string) bool {
	at := strings.IndexAny(value, "@=")
	return at >= 0 && value[at] == '@'
}

func noFile(name string, isFile bool) error {
	if isFile {
		return unsupported("The option " + name + " with an @file is not supported.")
	}
	return nil
}

func headerOption(r *request, value string) error {
	if strings.HasPrefix(value, "@") {
		return noFile("-H", true)
	}
	if rest, ok := strings.CutSuffix(value, ";"); ok && !strings.Contains(value, ":") {
		return r.addHeader(rest, "") // curl's syntax for a header without a value
	}
	at := strings.IndexByte(strings.TrimPrefix(value, ":"), ':')
	if at < 0 {
		return unparseable("syntax", "A header has no colon after its name.")
	}
	at += len(value) - len(strings.TrimPrefix(value, ":"))
	return r.addHeader(value[:at], value[at+1:])
}

// cookieOption follows curl: a value without an equals sign is a file name.
func cookieOption(r *request, value string) error {
	if value != "" && !strings.Contains(value, "=") {
		return unsupported("The option -b with a file is not supported.")
	}
	return r.addHeader("cookie", value)
}

// readWords reads the words of a curl command; the first one is curl itself. It passes err on, so that it can be called
// with the results of a splitter.
func readWords(words []string, err error) (*request, error) {
	if err != nil {
		return nil, err
	}
	r := newRequest()
	for at := 1; at < len(words); {
		used, err := r.readOption(words[at:])
		if err != nil {
			return nil, err
		}
		at += used
	}
	return r, nil
}

// readOption reads an option with its value, or a URL, and returns how many words it used.
func (r *request) readOption(words []string) (int, error) {
	word := words[0]
	switch {
	case !strings.HasPrefix(word, "-"):
		r.urls = append(r.urls, word)
		return 1, nil
	case word == "-" || word == "--":
		return 0, unsupported("The option " + word + " is not supported.")
	case !strings.HasPrefix(word, "--"):
		return r.readShort(words)
	}
	o, ok := optionOf(word)
	switch {
	case !ok:
		return 0, unsupported("The option " + optionName(word) + " is not supported.")
	case !o.takesValue:
		return 1, o.apply(r, "")
	case len(words) < 2:
		return 0, unparseable("syntax", "The option "+word+" has no value.")
	}
	return 2, o.apply(r, words[1])
}

// readShort reads a word with one-letter options. Several may share a word, and the value of the last may follow in it.
func (r *request) readShort(words []string) (int, error) {
	for i, letter := range words[0][1:] {
		name := "-" + string(letter)
		o, ok := optionOf(name)
		switch {
		case !ok && (letter <= ' ' || letter > '~'):
			return 0, unsupported("An option that is not a letter is not supported.")
		case !ok:
			return 0, unsupported("The option " + name + " is not supported.")
		case !o.takesValue:
			if err := o.apply(r, ""); err != nil {
				return 0, err
			}
			continue
		}
		if rest := words[0][1+i+1:]; rest != "" {
			return 1, o.apply(r, rest)
		}
		if len(words) < 2 {
			return 0, unparseable("syntax", "The option "+name+" has no value.")
		}
		return 2, o.apply(r, words[1])
	}
	return 1, nil
}

// optionName returns the name of a refused option for an error. A word that is not an option of curl may be a secret
// that lost its quotes, so it is not repeated.
func optionName(word string) string {
	name, _, _ := strings.Cut(word, "=")
	if slices.Contains(strings.Fields(curlOptions), strings.TrimPrefix(name, "--")) {
		return name
	}
	if _, ok := optionOf(name); ok {
		return name + " with an equals sign"
	}
	return "that is unknown to curl"
}

// curlOptions lists the long options of curl that are refused by name.
const curlOptions = `abstract-unix-socket alt-svc anyauth append aws-sigv4 basic ca-native cacert capath cert cert-status
cert-type ciphers compressed-ssh config connect-timeout connect-to continue-at cookie-jar create-dirs crlf crlfile curves
delegation digest disable disable-eprt disable-epsv dns-interface dns-servers doh-url dump-header ech egd-file engine
etag-compare etag-save expect100-timeout fail fail-early fail-with-body false-start form form-escape form-string ftp-pasv
ftp-port ftp-ssl-control get globoff happy-eyeballs-timeout-ms haproxy-protocol head help hostpubmd5 hsts http0.9 http1.0
http1.1 http2 http2-prior-knowledge http3 http3-only ignore-content-length include insecure interface ipv4 ipv6 json
junk-session-cookies keepalive-time key key-type krb libcurl limit-rate list-only local-port location location-trusted
login-options mail-from mail-rcpt manual max-filesize max-redirs max-time metalink negotiate netrc netrc-file
netrc-optional next no-alpn no-buffer no-clobber no-keepalive no-npn no-progress-meter no-sessionid noproxy ntlm ntlm-wb
oauth2-bearer output output-dir parallel parallel-immediate parallel-max pass path-as-is pinnedpubkey post301 post302
post303 preproxy progress-bar proto proto-default proto-redir proxy proxy-anyauth proxy-basic proxy-cacert proxy-cert
proxy-digest proxy-header proxy-insecure proxy-key proxy-negotiate proxy-ntlm proxy-pass proxy-user proxy1.0 proxytunnel
pubkey quote random-file range rate raw referer remote-header-name remote-name remote-name-all remote-time remove-on-error
request-target resolve retry retry-all-errors retry-connrefused retry-delay retry-max-time sasl-ir service-name show-error
silent socks4 socks4a socks5 socks5-basic socks5-gssapi socks5-hostname speed-limit speed-time ssl ssl-no-revoke ssl-reqd
sslv2 sslv3 stderr styled-output suppress-connect-headers tcp-fastopen tcp-nodelay telnet-option tftp-blksize time-cond
tls-max tls13-ciphers tlsv1 tlsv1.0 tlsv1.1 tlsv1.2 tlsv1.3 tr-encoding trace trace-ascii trace-config trace-ids trace-time
unix-socket upload-file url-query use-ascii user variable verbose version write-out xattr`
