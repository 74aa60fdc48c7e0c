package objects

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// location is a parsed Config.Location: a folder, or a bucket.
type location struct {
	folder string

	bucket string
	// prefix precedes the name of every object in the bucket. It is empty or ends with a slash.
	prefix           string
	region, endpoint string
	pathStyle        bool
}

const example = "such as /mnt/stagedoor/objects or s3://bucket?region=eu-west-1"

// buckets matches the name of a bucket.
var buckets = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`)

func parseLocation(text string) (location, error) {
	if filepath.IsAbs(text) {
		return location{folder: filepath.Clean(text)}, nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "s3" || u.User != nil || u.Fragment != "" || !buckets.MatchString(u.Host) {
		return location{}, fmt.Errorf("it is neither the absolute path of a folder nor an s3:// address: use one %s", example)
	}
	l := location{bucket: u.Host, region: "us-east-1"}
	if prefix := strings.Trim(u.Path, "/"); prefix != "" {
		if !names.MatchString(prefix) {
			return location{}, fmt.Errorf("the prefix %q of the bucket is not allowed: use lower-case letters, digits, - and _", prefix)
		}
		l.prefix = prefix + "/"
	}
	for name, values := range u.Query() {
		value := values[0]
		switch name {
		case "region":
			l.region = value
		case "endpoint":
			if !isEndpoint(value) {
				return location{}, errors.New("the endpoint is not an https origin: use one such as https://minio.internal:9000; http is allowed only for a loopback address")
			}
			l.endpoint = strings.TrimSuffix(value, "/")
		case "path-style":
			if l.pathStyle, err = strconv.ParseBool(value); err != nil {
				return location{}, errors.New("path-style is neither true nor false")
			}
		default:
			return location{}, fmt.Errorf("%s is not a parameter of s3://: use region, endpoint and path-style", name)
		}
	}
	return l, nil
}

// isEndpoint reports whether a text is the origin of an S3 service. Objects are sealed, but the credentials' signatures
// and the names of objects must not be in clear text on a network.
func isEndpoint(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return false
	}
	if u.Scheme == "http" {
		addr, err := netip.ParseAddr(u.Hostname())
		return u.Hostname() == "localhost" || err == nil && addr.IsLoopback()
	}
	return u.Scheme == "https"
}
