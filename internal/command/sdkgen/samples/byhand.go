package samples

// byHand holds the samples of operations that the libraries implement by hand, by operationId.
var byHand = map[string][]sample{
	"streamEvents": {
		{"TypeScript", `for await (const event of client.stream({ events: ["message", "tips"] })) {
  console.log(event.accountId, event.event, event.data);
}`},
		{"Go", `stream := client.Stream(ctx, stagedoor.StreamOptions{Events: []string{"message", "tips"}})
for event, err := range stream.All() {
	if err != nil {
		return err
	}
	fmt.Println(event.AccountID, event.Kind, event.Cursor)
}`},
		{"Python", `for event in client.stream(events=["message", "tips"]):
    print(event["accountId"], event["event"], event["data"])`},
	},
	"streamAccountEvents": {
		{"TypeScript", `const stream = client.account(accountId).stream({ since: "0", events: ["message"] });
for await (const event of stream) {
  console.log(event.data, stream.cursor);
}`},
		{"Go", `stream := client.Account(accountID).Stream(ctx, stagedoor.StreamOptions{Since: "0", Events: []string{"message"}})
for event, err := range stream.All() {
	if err != nil {
		return err
	}
	fmt.Println(event.Kind, event.Cursor)
}`},
		{"Python", `stream = client.account(account_id).stream(since="0", events=["message"])
for event in stream:
    print(event["data"], stream.cursor)`},
	},
	"streamAttempt": {
		{"TypeScript", `for await (const attempt of client.connect.watch(attemptId)) {
  console.log(attempt.state, attempt.next_actions);
}`},
		{"Go", `for attempt, err := range client.Connect.Watch(ctx, attemptID) {
	if err != nil {
		return err
	}
	fmt.Println(attempt.State, attempt.NextActions)
}`},
		{"Python", `for attempt in client.connect.watch(attempt_id):
    print(attempt["state"], attempt["next_actions"])`},
	},
	"getAttemptQR": {
		{"TypeScript", `const svg = await client.connect.getQR(attemptId, { format: "svg" });
console.log(new TextDecoder().decode(svg));`},
		{"Go", `picture, err := client.Connect.GetQR(ctx, attemptID, stagedoor.QRText)
if err != nil {
	return err
}
fmt.Println(string(picture))`},
		{"Python", `picture = client.connect.get_qr(attempt_id, "text")
print(picture.decode())`},
	},
	"getJobResult": {
		{"TypeScript", `const file = await client.jobs.getResult(jobId);
const lines = await new Response(file.body!.pipeThrough(new DecompressionStream("gzip"))).text();
console.log(lines.split("\n").length);`},
		{"Go", `file, err := client.Jobs.GetResult(ctx, jobID, stagedoor.DownloadOptions{})
if err != nil {
	return err
}
defer file.Body.Close()
_, err = io.Copy(os.Stdout, file.Body)
return err`},
		{"Python", `with client.jobs.get_result(job_id) as file:
    file.save("result.ndjson.gz")`},
	},
	"putJobItems": {
		{"TypeScript", `const job = await client.jobs.putItems(jobId, [{ accountId, args: { chatId: "3438267820000000001", text: "Thank you!" } }]);
console.log(job.state);`},
		{"Go", `job, err := client.Jobs.PutItems(ctx, jobID, []stagedoor.JobItem{{
	AccountID: accountID, Args: map[string]any{"chatId": "3438267820000000001", "text": "Thank you!"},
}})
if err != nil {
	return err
}
fmt.Println(job.State)`},
		{"Python", `job = client.jobs.put_items(
    job_id, [{"accountId": account_id, "args": {"chatId": "3438267820000000001", "text": "Thank you!"}}]
)
print(job["state"])`},
	},
	"callMethod": {
		{"TypeScript", `const result = await client.account(accountId).messages.send({
  chatId: "3438267820000000001",
  text: "Thank you!",
});
console.log(result);`},
		{"Go", `result, err := client.Account(accountID).Messages.Send(ctx, stagedoor.MessagesSendParams{
	ChatID: "3438267820000000001",
	Text:   "Thank you!",
})
if err != nil {
	return err
}
fmt.Println(result)`},
		{"Python", `result = client.account(account_id).messages.send(
    chat_id="3438267820000000001",
    text="Thank you!",
)
print(result)`},
	},
	"readMethod": {
		{"TypeScript", `const page = await client.account(accountId).messages.list({ chatId: "3438267820000000001" });
console.log(page.items, page.nextCursor);`},
		{"Go", `page, err := client.Account(accountID).Messages.List(ctx, stagedoor.MessagesListParams{
	ChatID: "3438267820000000001",
})
if err != nil {
	return err
}
fmt.Println(len(page.Items), page.NextCursor != nil) // whether there is another page`},
		{"Python", `page = client.account(account_id).messages.list(chat_id="3438267820000000001")
print(page["items"], page["nextCursor"])`},
	},
	"uploadMedia": {
		{"TypeScript", `import { openAsBlob } from "node:fs";

const upload = await client.account(accountId).media.upload(await openAsBlob("photo.jpg"), {
  fileName: "photo.jpg",
  contentType: "image/jpeg",
});
console.log(upload);`},
		{"Go", `file, err := os.Open("photo.jpg")
if err != nil {
	return err
}
defer file.Close()
upload, err := client.Account(accountID).Media.Upload(ctx, file, stagedoor.UploadOptions{
	FileName: "photo.jpg", ContentType: "image/jpeg",
})
if err != nil {
	return err
}
fmt.Println(upload)`},
		{"Python", `with open("photo.jpg", "rb") as file:
    upload = client.account(account_id).media.upload(
        file, filename="photo.jpg", content_type="image/jpeg"
    )
print(upload)`},
	},
	"uploadMediaPart": {
		{"TypeScript", `const part = await client.account(accountId).media.uploadPart("upl_01k9x3m5v8e7rbq2n4t6w8y0zg", 2, new Uint8Array(1024));
console.log(part);`},
		{"Go", `content := make([]byte, 1024)
part, err := client.Account(accountID).Media.UploadPart(ctx, "upl_01k9x3m5v8e7rbq2n4t6w8y0zg", 2, bytes.NewReader(content), int64(len(content)))
if err != nil {
	return err
}
fmt.Println(part)`},
		{"Python", `part = client.account(account_id).media.upload_part("upl_01k9x3m5v8e7rbq2n4t6w8y0zg", 2, bytes(1024))
print(part)`},
	},
	"downloadMedia": {
		{"TypeScript", `const file = await client.account(accountId).media.download("3438267820000000001", { quality: "preview" });
console.log(file.headers.get("content-type"), (await file.arrayBuffer()).byteLength);`},
		{"Go", `file, err := client.Account(accountID).Media.Download(ctx, "3438267820000000001", stagedoor.DownloadOptions{Quality: "preview"})
if err != nil {
	return err
}
defer file.Body.Close()
content, err := io.ReadAll(file.Body)
if err != nil {
	return err
}
fmt.Println(len(content))`},
		{"Python", `with client.account(account_id).media.download("3438267820000000001", quality="preview") as file:
    file.save("photo.jpg")`},
	},
	"fetchMedia": {
		{"TypeScript", `const file = await client.account(accountId).media.fetch("https://cdn.sandbox.test/avatar.jpg");
console.log((await file.arrayBuffer()).byteLength);`},
		{"Go", `file, err := client.Account(accountID).Media.Fetch(ctx, "https://cdn.sandbox.test/avatar.jpg", stagedoor.DownloadOptions{})
if err != nil {
	return err
}
defer file.Body.Close()
content, err := io.ReadAll(file.Body)
if err != nil {
	return err
}
fmt.Println(len(content))`},
		{"Python", `with client.account(account_id).media.fetch("https://cdn.sandbox.test/avatar.jpg") as file:
    file.save("avatar.jpg")`},
	},
}
