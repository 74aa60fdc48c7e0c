package stagedoor_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"

	stagedoor "github.com/stagedoor/stagedoor/client/go"
)

func ExampleNew() {
	client, err := stagedoor.New(stagedoor.Options{}) // STAGEDOOR_API_KEY, STAGEDOOR_URL
	if err != nil {
		log.Fatal(err)
	}
	for account, err := range client.Accounts.ListAll(context.Background(), stagedoor.AccountsListParams{Limit: 100}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(account.ID, account.Username, account.State)
	}
}

func ExampleAccountClient_Stream() {
	client, err := stagedoor.New(stagedoor.Options{})
	if err != nil {
		log.Fatal(err)
	}
	stream := client.Account("acct_01k9x5ahzre4bb3069xb2way0g").Stream(context.Background(), stagedoor.StreamOptions{Events: []string{"message", "tips"}})
	for event, err := range stream.All() {
		if err != nil {
			log.Fatal(err)
		}
		switch data := event.Data.(type) {
		case *stagedoor.MessageData:
			fmt.Println(data.FromUser.Name, data.Message.Text)
		case *stagedoor.TipsData:
			fmt.Println(data.User.Name, data.AmountCents)
		}
	}
}

func ExampleIsProblem() {
	err := error(&stagedoor.Problem{Status: 410, Code: stagedoor.CodeAccountDisconnected, Detail: "The session has ended."})
	var problem *stagedoor.Problem
	if errors.As(err, &problem) && stagedoor.IsProblem(err, stagedoor.CodeAccountDisconnected) {
		fmt.Println("connect again:", problem.Detail)
	}
	// Output: connect again: The session has ended.
}

func ExampleVerifyWebhook() {
	const secret = "whsec_…"
	http.HandleFunc("POST /hook", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
		if err != nil {
			http.Error(w, "unreadable", http.StatusBadRequest)
			return
		}
		event, err := stagedoor.VerifyWebhook(secret, r.Header, body)
		if err != nil {
			http.Error(w, "not verified", http.StatusUnauthorized)
			return
		}
		fmt.Println(event.ID, event.Kind)
		w.WriteHeader(http.StatusNoContent)
	})
}
