package testenv

import (
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/engine/objects"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// buildS3 builds the S3 server, once per version of it.
var buildS3 = sync.OnceValues(func() (binary string, err error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	out, err := exec.Command(filepath.Join(root, "scripts", "tool"), "versitygw").CombinedOutput()
	if err != nil {
		return "", &exec.Error{Name: string(out), Err: err}
	}
	return filepath.Join(root, ".dev", "bin", "versitygw"), nil
})

// S3 starts a server with the S3 API and an empty bucket for this test only. With an authority it requires TLS.
func S3(t testing.TB, a *Authority) (*Process, objects.Config) {
	t.Helper()
	binary, err := buildS3()
	must.OK(t, err)
	const accessKey, secretKey = "test-access", "test-secret-of-the-object-store"
	address, dir := FreePort(t), t.TempDir()
	must.OK(t, os.Mkdir(filepath.Join(dir, "objects"), 0o700))
	args := []string{"--access", accessKey, "--secret", secretKey, "--port", address, "--quiet"}
	c := objects.Config{AccessKey: secret.New(accessKey), SecretKey: secret.New(secretKey)}
	scheme := "http"
	if a != nil {
		cert, key := a.Issue("s3")
		args, scheme, c.CAFile = append(args, "--cert", cert, "--key", key), "https", a.CAFile
	}
	p := StartProcess(t, address, func() *exec.Cmd { return exec.Command(binary, append(args, "posix", dir)...) })
	c.Location = "s3://objects?" + url.Values{"endpoint": {scheme + "://" + address}, "path-style": {"true"}}.Encode()
	return p, c
}

// Folder returns an empty folder for objects.
func Folder(t testing.TB) objects.Config {
	t.Helper()
	return objects.Config{Location: t.TempDir()}
}
