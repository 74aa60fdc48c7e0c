package driver_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"image"
	"image/png"
	"io"
	"net/http"
	"testing"

	"github.com/stagedoor/stagedoor/sandbox/world"
)

// picture is a file that is uploaded.
var picture = func() []byte {
	var file bytes.Buffer
	if err := png.Encode(&file, image.NewGray(image.Rect(0, 0, 3, 2))); err != nil {
		panic(err)
	}
	return file.Bytes()
}()

// announced are the arguments of an upload of the picture, known those that ask for it.
var (
	pictureSum = func() string { sum := sha256.Sum256(picture); return hex.EncodeToString(sum[:]) }()
	announced  = fmt.Sprintf(`{"fileName":"dot.png","size":%d,"mimeType":"image/png","sha256":%q}`, len(picture), pictureSum)
	known      = fmt.Sprintf(`{"sha256":%q,"size":%d}`, pictureSum, len(picture))
	opened     = []step{{do: "uploads.init", args: announced}}
	uploaded   = []step{{do: "uploads.init", args: announced}, {do: "put", args: `{"uploadId":"$1.id","partNumber":1}`}}
)

// libraryEffects are those of the vault, its folders, uploads and release forms. Folder 5 is the creator's own.
var libraryEffects = effects{
	"vault.delete": {args: `{"mediaIds":["$media:3","$media:4"]}`, see: []sight{
		gone("vault.get", `{"mediaId":"$media:3"}`),
		sees("vault.list", "{}", "items[id=$media:3]", absent, "items[id=$media:4]", absent),
		sees("me.get", "{}", "mediaCount", plus(-2)),
		sees("posts.get", `{"postId":"$post:2"}`, "media[id=$media:3]", absent),
		answers("deleted", []string{"$media:3", "$media:4"}),
	}},
	"vaultFolders.create": {args: `{"name":"Tour 2027"}`, see: []sight{
		sees("vaultFolders.get", `{"folderId":"$.id"}`, "", theAnswer, "name", "Tour 2027", "isSystem", false, "counts.photo", 0),
		sees("vaultFolders.list", "{}", "items[id=$.id].name", "Tour 2027"),
	}},
	"vaultFolders.rename": {args: `{"folderId":"$folder:6","name":"The red dress"}`, see: []sight{
		sees("vaultFolders.get", `{"folderId":"$folder:6"}`, "", theAnswer, "name", "The red dress"),
		sees("vaultFolders.list", `{"query":"the red"}`, "items[id=$folder:6]", some),
	}},
	"vaultFolders.delete": {args: `{"folderId":"$folder:5"}`, see: []sight{
		gone("vaultFolders.get", `{"folderId":"$folder:5"}`),
		gone("vaultFolders.listMedia", `{"folderId":"$folder:5"}`),
		sees("vaultFolders.list", "{}", "items[id=$folder:5]", absent),
		sees("vault.get", `{"mediaId":"$media:3"}`, "folderIds.#", plus(-1), "id", still{"$media:3"}),
	}},
	"vaultFolders.addMedia": {args: `{"folderId":"$folder:7","mediaIds":["$media:3","$media:8"]}`, see: []sight{
		sees("vaultFolders.listMedia", `{"folderId":"$folder:7"}`, "items[id=$media:3]", some, "items[id=$media:8].type", "video"),
		sees("vaultFolders.get", `{"folderId":"$folder:7"}`, "counts.photo", plus(1), "counts.video", plus(1)),
		sees("vault.list", `{"folderId":"$folder:7"}`, "items[id=$media:8]", some),
		answers("added", 2),
	}},
	"vaultFolders.removeMedia": {args: `{"folderId":"$folder:5","mediaIds":["$media:3","$media:4"]}`, see: []sight{
		sees("vaultFolders.listMedia", `{"folderId":"$folder:5"}`, "items[id=$media:3]", absent),
		sees("vault.get", `{"mediaId":"$media:3"}`, "folderIds.#", plus(-1)),
		answers("removed", 1),
	}},

	"uploads.init": {args: announced, see: []sight{
		sees("uploads.get", `{"uploadId":"$.id"}`, "", theAnswer, "state", "open", "parts", []any{}, "mediaId", nil, "partSize", 5<<20),
		sees("uploads.getPartUrl", `{"uploadId":"$.id","partNumber":1}`, "url", some, "expiresAt", some),
	}},
	"uploads.complete": {
		first: uploaded, args: `{"uploadId":"$1.id","parts":[{"number":1,"etag":"$2.etag"}]}`,
		see: []sight{
			sees("uploads.get", `{"uploadId":"$1.id"}`, "state", "ready", "mediaId", "$.mediaId"),
			sees("vault.get", `{"mediaId":"$.mediaId"}`, "state", "ready", "type", "photo", "width", 3, "height", 2, "sizeBytes", len(picture)),
			sees("vault.list", `{"limit":1}`, "items.0.id", "$.mediaId"),
			sees("uploads.check", known, "exists", true, "mediaId", "$.mediaId"),
			sees("me.get", "{}", "mediaCount", plus(1)),
			tells("mediaReady", "media.id", "$.mediaId", "uploadId", "$1.id"),
		},
		also: comesBack,
	},
	"uploads.complete/in two parts": {
		first: []step{
			{do: "uploads.init", args: `{"fileName":"film.mp4","size":5242890,"mimeType":"video/mp4"}`},
			{do: "put", args: `{"uploadId":"$1.id","partNumber":2,"size":10}`}, {do: "put", args: `{"uploadId":"$1.id","partNumber":1,"size":5242880}`},
			{do: "uploads.get", args: `{"uploadId":"$1.id"}`},
		},
		args: `{"uploadId":"$1.id"}`,
		see: []sight{
			sees("uploads.get", `{"uploadId":"$1.id"}`, "state", "ready", "parts.0.size", still{5242880}, "parts.1.size", still{10}, "parts.1.etag", still{"$2.etag"}),
			sees("vault.get", `{"mediaId":"$.mediaId"}`, "state", "ready", "type", "video", "sizeBytes", 5242890),
		},
	},
	"uploads.complete/of another file": {
		first: []step{
			{do: "uploads.init", args: `{"fileName":"dot.png","size":10,"mimeType":"image/png"}`},
			{do: "put", args: `{"uploadId":"$1.id","partNumber":1,"size":10}`},
		},
		args: `{"uploadId":"$1.id"}`, wait: []string{"mediaFailed"},
		see: []sight{
			sees("uploads.get", `{"uploadId":"$1.id"}`, "state", "failed", "error", "The content of the file does not match its type."),
			sees("vault.get", `{"mediaId":"$.mediaId"}`, "state", "failed"),
			tells("mediaFailed", "uploadId", "$1.id", "error", "The content of the file does not match its type."),
		},
	},
	"uploads.fromUrl": {args: `{"url":"https://files.example.com/summer.jpg"}`, see: []sight{
		sees("uploads.get", `{"uploadId":"$.id"}`, "state", "ready", "mediaId", "$.mediaId"),
		sees("vault.list", `{"query":"summer.jpg"}`, "items[id=$.mediaId].state", "ready"),
		tells("mediaReady", "media.id", "$.mediaId", "uploadId", "$.id"),
	}},
	"uploads.abort": {first: uploaded, args: `{"uploadId":"$1.id"}`, see: []sight{
		sees("uploads.get", `{"uploadId":"$1.id"}`, "state", "aborted", "parts", []any{}),
		sees("uploads.getPartUrl", `{"uploadId":"$1.id","partNumber":1}`, "refused", "conflict"),
	}},
	"uploads.abort/before a part came": {first: opened, args: `{"uploadId":"$1.id"}`, see: []sight{
		sees("uploads.get", `{"uploadId":"$1.id"}`, "state", "aborted"),
	}},

	"releaseForms.createInvite": {args: `{"name":"Robin Hale","email":"robin@example.com"}`, see: []sight{
		sees("releaseForms.list", `{"status":"pending"}`, "items[name=Robin Hale].email", "robin@example.com", "items[name=Robin Hale].expiresAt", "$.expiresAt"),
		answers("url", some),
	}},
	"releaseForms.tagMedia": {
		args: `{"mediaId":"$media:3","releaseFormIds":["$form:1","$form:2"]}`, unseen: "the catalog's Media does not show its release forms",
		see:    []sight{answers("id", "$media:3")},
		inside: func(c *world.Creator, id func(string) int64) any { return c.Media().Get(id("$media:3")).Forms },
		want:   []string{"$form:1", "$form:2"},
	},
}

// comesBack downloads what was uploaded.
func comesBack(t *testing.T, s *stage) {
	t.Helper()
	address := at(s.read("vault.getDownloadUrl", s.fill(`{"mediaId":"$.mediaId","quality":"source"}`)), "url")
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprint(address), nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if data, err := io.ReadAll(resp.Body); err != nil || !bytes.Equal(data, picture) {
		t.Errorf("%d bytes came back of %d: %v", len(data), len(picture), err)
	}
}
