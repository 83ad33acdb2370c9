document.body.append("proctor");
