package main

import (
	"context"
	"fmt"
	"log"
	"os"

	holdpoint "holdpoint.example/client"
)

type payment struct {
	Amount string `json:"amount"`
	To     string `json:"to"`
}

func main() {
	journal, err := holdpoint.OpenJournal("agent.journal")
	if err != nil {
		log.Fatal(err)
	}
	sendPayment := holdpoint.Tool[payment, string]{
		Client: &holdpoint.Client{URL: os.Getenv("HOLDPOINT_URL"), Key: os.Getenv("HOLDPOINT_API_KEY"), Journal: journal},
		Event: holdpoint.Event{
			ToolName: "send_payment", ToolCategory: holdpoint.Write, AuthorizationState: holdpoint.Authenticated,
			RiskDomain: "finance", RecommendedRoute: holdpoint.Defer,
		},
		Run: func(_ context.Context, p payment, _ holdpoint.Permit) (string, error) {
			return fmt.Sprintf("paid %s to %s", p.Amount, p.To), nil
		},
	}
	fmt.Println(sendPayment.Call(context.Background(), payment{"12.50", "Paper & Pens Ltd."}))
}
