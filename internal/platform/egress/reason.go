package egress

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"
)

// explain says in words why a request to a customer's URL got no response. Like a Failure, the text has no address and
// tells nothing about our network.
func (p *Public) explain(failure Failure, err error) string {
	switch failure {
	case FailBlocked:
		return "the host does not resolve to a public address"
	case FailConnect:
		return explainDial(err)
	case FailTLS:
		return explainTLS(err, p.config.Now())
	case FailTimeout:
		if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
			return fmt.Sprintf("no connection within %s", words(publicConnect))
		}
		if errors.Is(err, errTLS) {
			return fmt.Sprintf("the TLS handshake did not end within %s", words(publicTLS))
		}
		return fmt.Sprintf("timed out after %s", words(p.total))
	case FailBroken:
		return "the connection was closed before there was a response"
	case FailResponse:
	}
	return "the response is not HTTP"
}

func words(d time.Duration) string { return fmt.Sprintf("%d s", int(d.Seconds())) }

func explainDial(err error) string {
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "no route to the host"
	}
	return "no connection to the host"
}

func explainTLS(err error, now time.Time) string {
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok {
		switch {
		case invalid.Reason == x509.Expired && invalid.Cert != nil && now.Before(invalid.Cert.NotBefore):
			return "the certificate is not valid yet"
		case invalid.Reason == x509.Expired:
			return "the certificate has expired"
		}
		return "the certificate is not valid"
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return "the certificate is for another host"
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return "the certificate was not signed by a known authority, or an intermediate certificate is missing"
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return "the server does not use TLS on this port"
	}
	return "the TLS handshake failed"
}
